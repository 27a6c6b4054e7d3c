#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "placement/balance/cluster.h"
#include "placement/balance/index.h"
#include "placement/balance/refill.h"
#include "placement/balance/slots.h"
#include "waybill/balance.h"
#include "waybill/error.h"

namespace waybill {
namespace {

Cluster without(const Cluster& cluster, std::int32_t experts, std::span<const Rank> lost) {
  Cluster left = cluster;
  for (Rank rank : lost) {
    if (rank.value < 0 || rank.index() >= left.slots.size()) {
      throw Error(Code::RankOutsideGroup)
          .at("rank", rank)
          .expected(fmt::format("a rank in [0, {})", left.slots.size()));
    }
    left.slots[rank.index()] = 0;
  }
  const std::int32_t slots = std::accumulate(left.slots.begin(), left.slots.end(), 0);
  if (slots < experts) {
    throw Error(Code::ReplicaCardinalityZero)
        .at("experts", experts)
        .expected(fmt::format("{} more slots on the ranks that are left", experts - slots))
        .found(fmt::format("{} slots", slots));
  }
  return left;
}

// Seats the experts that are gone in slots of spare copies; says where.
std::vector<Reload> reload(const ProblemFrame& frame, std::vector<double> load, SlotLists& lists) {
  LayerProblem problem = frame.problem;
  problem.load = std::move(load);
  problem.home.assign(problem.load.size(), 0);
  problem.keep_home = problem.only_home = false;  // any rank may hold what would else be lost
  SlotLists left;
  for (std::int32_t p : frame.ranks) left.push_back(lists[at(p)]);
  const auto seated = refill(problem, left);
  std::vector<Reload> reloads;
  if (!seated) return reloads;
  for (std::size_t i = 0; i < left.size(); ++i) {
    for (std::int32_t e : (*seated)[i]) {
      if (std::ranges::find(left[i], e) != left[i].end()) continue;
      reloads.push_back({ExpertId(e), Rank(frame.ranks[i])});
    }
    lists[at(frame.ranks[i])] = (*seated)[i];
  }
  return reloads;
}

}  // namespace

LostRankPlan balance_without(const LoadMatrix& load, const Cluster& cluster,
                             std::span<const SlotLists> in_force, std::span<const Rank> lost,
                             const BalanceOptions& options) {
  check_in_force(load, cluster, in_force);
  if (in_force.empty()) {
    throw Error(Code::MissingField)
        .at("field", "in_force")
        .expected("the placement that the lost ranks were a part of");
  }
  LostRankPlan plan;
  plan.cluster = without(cluster, load.experts(), lost);
  const auto layers = static_cast<std::int32_t>(load.layers().size());
  const ProblemFrame left = frame(load.experts(), layers, plan.cluster, options);
  std::vector<SlotLists> repaired(in_force.begin(), in_force.end());
  for (std::size_t i = 0; i < repaired.size(); ++i) {
    for (Rank rank : lost) repaired[i][rank.index()].clear();
    LostRankLayer layer;
    layer.layer = load.layers()[i];
    layer.gone = without_copy(repaired[i], load.experts());
    layer.reloads = reload(left, load.total(i), repaired[i]);
    plan.layers.push_back(std::move(layer));
  }
  BalancePlan balanced = balance(load, plan.cluster, repaired, options);
  plan.warnings = std::move(balanced.warnings);
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    plan.layers[i].plan = std::move(balanced.layers[i]);
  }
  return plan;
}

}  // namespace waybill
