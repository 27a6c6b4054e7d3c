#include "placement/balance/copies.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "placement/balance/room.h"
#include "placement/balance/winner_tree.h"

namespace waybill {
namespace {

// Share of the mean rank load below which loads count as equal, so that spare slots without load
// to divide spread over the experts instead of piling up on one.
constexpr double kNoLoad = 1e-9;

// Square roots are exact in IEEE arithmetic, so every machine gets the same weights.
double damped(double load, Halvings halvings) {
  const double floor = std::max(load, kNoLoad);
  if (halvings == kByLoad) return floor;
  double power = 1;
  for (Halvings i = 0; i < halvings; ++i) power = std::sqrt(floor * power);
  return power;
}

// Divides the slots of `ranks` among `experts`.
void apportion(const LayerProblem& problem, Halvings halvings,
               std::span<const std::int32_t> experts, std::span<const std::int32_t> ranks,
               std::vector<std::int32_t>& copies) {
  std::vector<std::int32_t> slots;
  std::size_t spare = 0;
  for (std::int32_t p : ranks) {
    slots.push_back(problem.slots_on(p));
    spare += static_cast<std::size_t>(slots.back());
  }
  spare -= experts.size();
  Room room(std::move(slots));
  std::vector<double> weight;
  WinnerTree next(WinnerTree::Wins::largest);
  next.reset(experts.size());
  for (std::size_t i = 0; i < experts.size(); ++i) {
    weight.push_back(damped(problem.load[static_cast<std::size_t>(experts[i])], halvings));
    next.set(i, static_cast<float>(weight[i]));
  }
  next.refresh();
  while (spare > 0) {
    const std::size_t i = next.winner();
    std::int32_t& count = copies[static_cast<std::size_t>(experts[i])];
    if (!room.admits(count)) {
      next.take_out(i);
      continue;
    }
    room.take(count);
    ++count;
    --spare;
    next.update(i, static_cast<float>(weight[i] / count));
  }
}

}  // namespace

std::vector<std::int32_t> apportion_copies(const LayerProblem& problem, Halvings halvings) {
  std::vector<std::int32_t> copies(problem.load.size(), 1);
  const std::int32_t pools = problem.only_home ? problem.nodes : 1;
  for (std::int32_t pool = 0; pool < pools; ++pool) {
    std::vector<std::int32_t> experts, ranks;
    for (std::int32_t e = 0; e < problem.experts(); ++e) {
      if (pools == 1 || problem.home[static_cast<std::size_t>(e)] == pool) experts.push_back(e);
    }
    for (std::int32_t p = 0; p < problem.ranks(); ++p) {
      if (pools == 1 || problem.node[static_cast<std::size_t>(p)] == pool) ranks.push_back(p);
    }
    apportion(problem, halvings, experts, ranks, copies);
  }
  return copies;
}

}  // namespace waybill
