#include "placement/balance/solve_layer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "placement/balance/assignment.h"
#include "placement/balance/copies.h"
#include "placement/balance/local_search.h"
#include "placement/balance/packing.h"
#include "waybill/error.h"

namespace waybill {
namespace {

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
  const Assignment* best = nullptr;
  for (Assignment& start : starts) {
    left -= lower_slowest(start, {.goal = kEvenEnough, .candidates = left});
    if (best == nullptr || start.ratio() < best->ratio()) best = &start;
    if (left <= 0 || best->ratio() <= kEvenEnough) break;
  }
  return {best->experts().begin(), best->experts().end()};
}

}  // namespace waybill
