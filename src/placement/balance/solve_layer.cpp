#include "placement/balance/solve_layer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "placement/balance/assignment.h"
#include "placement/balance/copies.h"
#include "placement/balance/local_search.h"
#include "placement/balance/packing.h"

namespace waybill {
namespace {

constexpr std::array<Halvings, 4> kApportionments{kByLoad, 4, 3, 2};

}  // namespace

std::vector<std::int32_t> solve_layer(const LayerProblem& problem) {
  std::vector<Assignment> starts;
  for (Halvings halvings : kApportionments) {
    const auto copies = apportion_copies(problem, halvings);
    starts.emplace_back(problem, pack_copies(problem, copies));
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
