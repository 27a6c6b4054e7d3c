#include "placement/balance/solve_layer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "placement/balance/assignment.h"
#include "placement/balance/copies.h"
#include "placement/balance/local_search.h"
#include "placement/balance/packing.h"
#include "waybill/error.h"
#include "waybill/hash.h"

namespace waybill {
namespace {

// Random changes that lead out of a dead end, and what they and a new start are worth in candidates
// for each slot.
constexpr int kShakes = 3;
constexpr std::int64_t kRestartCost = 4;

constexpr std::array<Halvings, 4> kApportionments{kByLoad, 4, 3, 2};

// Whether every node can fill its ranks with its own experts alone.
bool may_all_stay_home(const LayerProblem& problem) {
  if (!problem.keep_home) return false;
  std::vector<std::int32_t> experts(static_cast<std::size_t>(problem.nodes), 0);
  for (std::int32_t node : problem.home) ++experts[static_cast<std::size_t>(node)];
  for (std::int32_t p = 0; p < problem.ranks(); ++p) {
    const std::int32_t node = problem.node[static_cast<std::size_t>(p)];
    if (problem.slots_on(p) > experts[static_cast<std::size_t>(node)]) return false;
  }
  return true;
}

// A few legal changes of slots drawn from `state`.
void shake(Assignment& now, std::uint64_t& state) {
  const auto draw = [&state](std::int32_t count) {
    state += splitmix64_step;
    return static_cast<std::int32_t>(splitmix64(state) % static_cast<std::uint64_t>(count));
  };
  const LayerProblem& problem = now.problem();
  for (int i = 0; i < kShakes; ++i) {
    const std::int32_t a = draw(problem.slots()), b = draw(problem.slots());
    if (now.can_swap(a, b)) now.swap(a, b);
    const std::int32_t slot = draw(problem.slots()), expert = draw(problem.experts());
    if (now.can_replace(slot, expert)) now.replace(slot, expert);
  }
}

}  // namespace

std::vector<std::int32_t> solve_layer(const LayerProblem& problem) {
  std::vector<Assignment> starts;
  for (Halvings halvings : kApportionments) {
    const auto copies = apportion_copies(problem, halvings);
    if (const auto packed = pack_copies(problem, copies)) starts.emplace_back(problem, *packed);
  }
  if (starts.empty() && may_all_stay_home(problem)) {
    LayerProblem hard = problem;
    hard.only_home = true;
    const auto copies = apportion_copies(hard, kByLoad);
    if (const auto packed = pack_copies(hard, copies)) starts.emplace_back(problem, *packed);
  }
  if (starts.empty()) {
    throw Error(Code::InvalidValue)
        .at("field", "slots")
        .expected(
            "slots that hold a copy of each expert in its home node and no two copies of an "
            "expert on a rank")
        .found("no such placement")
        .note("fewer slots on the largest ranks or locality none mend it");
  }
  std::ranges::stable_sort(starts, {}, &Assignment::ratio);
  std::int64_t left = kSearchCandidates;
  Assignment* best = nullptr;
  for (Assignment& start : starts) {
    left -= lower_slowest(start, {.goal = kEvenEnough, .candidates = left});
    if (best == nullptr || start.ratio() < best->ratio()) best = &start;
    if (left <= 0 || best->ratio() <= kEvenEnough) break;
  }
  // Small layers reach a dead end with most of the work left.
  for (std::uint64_t state = 0; left > 0 && best->ratio() > kEvenEnough;) {
    Assignment shaken = *best;
    shake(shaken, state);
    left -= lower_slowest(shaken, {.goal = kEvenEnough, .candidates = left});
    left -= kRestartCost * problem.slots();
    if (shaken.ratio() < best->ratio()) *best = std::move(shaken);
  }
  return {best->experts().begin(), best->experts().end()};
}

}  // namespace waybill
