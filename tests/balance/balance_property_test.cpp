// Any cluster and load: the rules hold, predictions are what the lists give, a plan is never worse
// than the placement that it starts from.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "balance/plan_rules.h"
#include "balance/recorded_loads.h"
#include "property/property.h"
#include "waybill/balance.h"

namespace waybill {
namespace {

using testing::broken_rule;
using testing::load_matrix;

std::int32_t pick(std::int32_t low, std::int32_t high) { return property::draw(low, high + 1); }

std::vector<double> any_load(std::int32_t experts) {
  std::vector<double> load;
  for (std::int32_t e = 0; e < experts; ++e) load.push_back(std::max(0, pick(-200, 1000)));
  return load;
}

Cluster any_cluster(std::int32_t experts) {
  const std::int32_t ranks = pick(1, 10);
  Cluster cluster{Topology::uniform(ranks), {}, {}, {}};
  for (std::int32_t r = 0; r < ranks; ++r) {
    cluster.slots.push_back(pick(0, experts));
    cluster.speed.push_back(pick(1, 4));
  }
  std::int32_t missing =
      experts - std::accumulate(cluster.slots.begin(), cluster.slots.end(), std::int32_t{0});
  for (std::int32_t& slots : cluster.slots) {
    const std::int32_t more = std::clamp(missing, 0, experts - slots);
    slots += more;
    missing -= more;
  }
  return cluster;
}

// Largest over mean rank time, summed up slot by slot.
double direct_ratio(const std::vector<double>& load, const SlotLists& lists,
                    const std::vector<double>& speed) {
  const auto count = testing::copies(lists, static_cast<std::int32_t>(load.size()));
  double slowest = 0, total = 0, total_speed = 0;
  for (std::size_t r = 0; r < lists.size(); ++r) {
    double mine = 0;
    for (std::int32_t e : lists[r]) {
      mine += load[static_cast<std::size_t>(e)] / count[static_cast<std::size_t>(e)];
    }
    total += mine;
    if (!lists[r].empty()) total_speed += speed[r];
    slowest = std::max(slowest, mine / speed[r]);
  }
  return total > 0 ? slowest / (total / total_speed) : 1;
}

PROPERTY(BalanceProperty, PlansKeepTheRulesAndGiveWhatTheyPredict) {
  const std::int32_t experts = pick(1, 40);
  const Cluster cluster = any_cluster(experts);
  const auto load = any_load(experts);
  const LayerPlan plan = balance(load_matrix(load, experts), cluster).layers[0];
  HOLDS(broken_rule(plan.slots, cluster, experts) == "");
  const double ratio = direct_ratio(load, plan.slots, cluster.speed);
  HOLDS(std::abs(plan.after.balance_ratio - ratio) <= 1e-9 * ratio);
}

PROPERTY(BalanceProperty, APlanIsNeverWorseThanThePlacementInForce) {
  const std::int32_t experts = pick(1, 40);
  const Cluster cluster = any_cluster(experts);
  const SlotLists in_force =
      balance(load_matrix(any_load(experts), experts), cluster).layers[0].slots;
  const auto load = any_load(experts);
  BalanceOptions options;
  options.max_changed_slots = pick(0, 50);
  const LayerPlan plan =
      balance(load_matrix(load, experts), cluster, std::vector<SlotLists>{in_force}, options)
          .layers[0];
  HOLDS(broken_rule(plan.slots, cluster, experts) == "");
  HOLDS(plan.after.balance_ratio <= plan.before.balance_ratio * (1 + 1e-9));
  HOLDS(plan.after.changed_slots <= *options.max_changed_slots);
}

PROPERTY(BalanceProperty, LocalityKeepsCopiesInHomeNodes) {
  const std::int32_t nodes = pick(1, 4), ranks_per_node = pick(1, 4);
  const std::int32_t groups = nodes * pick(1, 3), size = pick(1, 6), experts = groups * size;
  const std::int32_t at_home = experts / nodes;
  const std::int32_t least = (at_home + ranks_per_node - 1) / ranks_per_node;
  Cluster cluster{Topology::uniform(nodes * ranks_per_node, nodes), {}, {}, {}};
  for (std::int32_t r = 0; r < cluster.topology.ranks(); ++r) {
    cluster.slots.push_back(pick(least, at_home));
  }
  BalanceOptions options;
  options.groups = groups;
  options.locality = property::draw_one_of({Locality::soft, Locality::hard});
  const LayerPlan plan =
      balance(load_matrix(any_load(experts), experts), cluster, {}, options).layers[0];
  HOLDS(broken_rule(plan.slots, cluster, experts) == "");
  for (std::int32_t group = 0; group < groups; ++group) {
    HOLDS(testing::has_home(plan.slots, cluster.topology, group * size, size));
  }
}

}  // namespace
}  // namespace waybill
