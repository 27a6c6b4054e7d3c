#include "placement/balance/objective.h"

#include <algorithm>
#include <numeric>

#include "placement/balance/index.h"
#include "waybill/error.h"

namespace waybill {
namespace {

struct Balance {
  double largest = 0, ratio = 1;
};

// Largest rank in the load's unit at mean speed, and over the mean rank.
Balance balance_of(std::span<const double> load, const SlotLists& lists,
                   std::span<const double> speed) {
  const std::vector<double> loads = rank_loads(load, lists);
  double total_speed = 0, total = 0, slowest = 0;
  std::size_t ranks = 0;
  for (std::size_t p = 0; p < loads.size(); ++p) {
    if (lists[p].empty()) continue;
    const double s = speed.empty() ? 1 : speed[p];
    ++ranks;
    total += loads[p];
    total_speed += s;
    slowest = std::max(slowest, loads[p] / s);
  }
  if (total <= 0) return {};
  return {slowest * total_speed / static_cast<double>(ranks), slowest * total_speed / total};
}

// Load that crosses nodes when each source's routes to an expert spread evenly over its copies.
double inter_node_load(const LoadMatrix& load, std::size_t layer, const Topology& topology,
                       const SlotLists& lists) {
  const std::size_t experts = at(load.experts()), nodes = at(topology.nodes());
  std::vector<std::int32_t> copies(experts, 0), here(nodes * experts, 0);
  for (std::size_t p = 0; p < lists.size(); ++p) {
    const std::size_t node = topology.node_of(Rank(static_cast<std::int32_t>(p))).index();
    for (std::int32_t e : lists[p]) {
      ++copies[at(e)];
      ++here[node * experts + at(e)];
    }
  }
  const std::span<const double> rows = load.by_source(layer);
  double crossing = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    crossing += rows[i] * (1.0 - static_cast<double>(here[i]) / copies[i % experts]);
  }
  return crossing;
}

std::size_t count_slots(const SlotLists& lists) {
  std::size_t slots = 0;
  for (const auto& list : lists) slots += list.size();
  return slots;
}

}  // namespace

ObjectiveTerms objective_terms(const LoadMatrix& load, std::size_t layer, const Cluster& cluster,
                               const SlotLists& from, const SlotLists& to,
                               const BalanceOptions& options) {
  const std::vector<double> total = load.total(layer);
  const auto slots = static_cast<double>(count_slots(to));
  const ObjectiveWeights& weights = options.weights;
  ObjectiveTerms terms;
  const Balance balance = balance_of(total, to, cluster.speed);
  terms.largest_rank = balance.largest;
  terms.balance_ratio = balance.ratio;
  terms.changed_slots = changed_slots(from, to);
  terms.migration_bytes = static_cast<std::uint64_t>(terms.changed_slots) * options.expert_bytes;
  terms.resident_bytes = count_slots(to) * options.expert_bytes;
  const double changed = terms.changed_slots / slots;
  terms.total = weights.balance * balance.ratio + (weights.migration + weights.churn) * changed +
                weights.resident * slots / load.experts();
  if (load.sources() == cluster.topology.nodes() && load.sources() > 1) {
    terms.inter_node = inter_node_load(load, layer, cluster.topology, to);
    const double rows = std::accumulate(total.begin(), total.end(), 0.0);
    if (rows > 0) terms.total += weights.inter_node * *terms.inter_node / rows;
  }
  return terms;
}

double balance_ratio(std::span<const double> load, const SlotLists& lists,
                     std::span<const double> speed) {
  return balance_of(load, lists, speed).ratio;
}

double balancedness(std::span<const std::vector<double>> tokens) {
  double weighted = 0, all = 0;
  for (const auto& ranks : tokens) {
    if (ranks.empty()) continue;
    const double sum = std::accumulate(ranks.begin(), ranks.end(), 0.0);
    if (sum <= 0) continue;
    weighted += sum * (sum / static_cast<double>(ranks.size()) / *std::ranges::max_element(ranks));
    all += sum;
  }
  return all > 0 ? weighted / all : 1;
}

}  // namespace waybill
