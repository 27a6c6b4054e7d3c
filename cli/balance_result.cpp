#include "balance_result.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "placement/balance/slots.h"
#include "waybill/eplb.h"

namespace waybill::cli {
namespace {

// Contiguous runs of experts on the ranks that have slots: what a plan is compared with when
// nothing is in force.
SlotLists runs_without_replicas(std::int32_t experts, const Cluster& cluster) {
  const auto ranks = static_cast<std::int32_t>(
      cluster.slots.size() - static_cast<std::size_t>(std::ranges::count(cluster.slots, 0)));
  SlotLists lists(cluster.slots.size());
  std::int32_t next = 0, seen = 0;
  for (std::size_t p = 0; p < lists.size(); ++p) {
    if (cluster.slots[p] == 0) continue;
    for (std::int32_t n = experts / ranks + (seen < experts % ranks ? 1 : 0); n > 0; --n) {
      lists[p].push_back(next++);
    }
    ++seen;
  }
  return lists;
}

double balancedness_of(const LoadMatrix& load, std::span<const SlotLists> layers,
                       const Cluster& cluster) {
  std::vector<std::vector<double>> tokens;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::vector<double> loads = rank_loads(load.total(i), layers[i]);
    auto& own = tokens.emplace_back();
    for (std::size_t p = 0; p < loads.size(); ++p) {
      if (cluster.slots[p] > 0) own.push_back(loads[p]);
    }
  }
  return balancedness(tokens);
}

// Which copy of its expert each slot is, as the public solver numbers them; one layer.
SlotLists eplb_copies(const EplbPlan& plan, std::size_t layer, const SlotLists& lists) {
  SlotLists copies;
  const auto slots = static_cast<std::size_t>(plan.replicas);
  std::size_t at = layer * slots;
  for (const auto& list : lists) {
    auto& own = copies.emplace_back();
    for (std::size_t i = 0; i < list.size(); ++i) own.push_back(plan.phyrank[at++]);
  }
  return copies;
}

bool holds_slots(const EplbPlan& plan, std::size_t layer, const SlotLists& lists) {
  const std::vector<std::int32_t> own = slots_of(lists);
  const auto size = static_cast<std::ptrdiff_t>(plan.replicas);
  const auto from = plan.phy2log.begin() + static_cast<std::ptrdiff_t>(layer) * size;
  return std::equal(own.begin(), own.end(), from, from + size);
}

// Copies count up through slots but where the public solver placed them.
std::vector<SlotLists> copies_of(const BalanceProblem& problem, const BalanceReport& report) {
  if (problem.options.solver != Solver::eplb || report.without) return {};
  const LoadMatrix& load = problem.demand.load;
  std::vector<float> weight;
  for (std::size_t i = 0; i < load.layers().size(); ++i) {
    for (double value : load.total(i)) weight.push_back(static_cast<float>(value));
  }
  const bool global = problem.options.locality == Locality::none;
  const Cluster& cluster = report.cluster;
  const EplbShape shape{.replicas = std::accumulate(cluster.slots.begin(), cluster.slots.end(), 0),
                        .groups = global ? 1 : problem.options.groups,
                        .nodes = global ? 1 : cluster.topology.nodes(),
                        .gpus = static_cast<std::int32_t>(cluster.slots.size())};
  const EplbPlan plan =
      eplb(weight, static_cast<std::int32_t>(load.layers().size()), load.experts(), shape);
  std::vector<SlotLists> copies;
  for (std::size_t i = 0; i < report.after.size(); ++i) {
    const SlotLists& lists = report.after[i];
    copies.push_back(holds_slots(plan, i, lists) ? eplb_copies(plan, i, lists)
                                                 : replica_numbers(lists, load.experts()));
  }
  return copies;
}

SlotLists of_ranks_left(const SlotLists& lists, const Cluster& cluster) {
  SlotLists left;
  for (std::size_t p = 0; p < lists.size(); ++p) {
    if (cluster.slots[p] > 0) left.push_back(lists[p]);
  }
  return left;
}

}  // namespace

BalanceReport solve(const BalanceProblem& problem) {
  const LoadMatrix& load = problem.demand.load;
  BalanceReport report{.plan = {},
                       .cluster = problem.cluster,
                       .without = {},
                       .before = {},
                       .after = {},
                       .warnings = problem.warnings};
  if (problem.lost.empty()) {
    report.plan = balance(load, problem.cluster, problem.in_force, problem.options);
    report.before = problem.in_force;
    if (report.before.empty()) {
      report.before.assign(load.layers().size(),
                           runs_without_replicas(load.experts(), problem.cluster));
    }
    report.balancedness_before = balancedness_of(load, report.before, problem.cluster);
  } else {
    report.without =
        balance_without(load, problem.cluster, problem.in_force, problem.lost, problem.options);
    report.cluster = report.without->cluster;
    report.plan.warnings = report.without->warnings;
    for (const LostRankLayer& layer : report.without->layers) {
      report.plan.layers.push_back(layer.plan);
    }
  }
  for (const LayerPlan& layer : report.plan.layers) report.after.push_back(layer.slots);
  report.balancedness_after = balancedness_of(load, report.after, report.cluster);
  report.warnings.insert(report.warnings.end(), report.plan.warnings.begin(),
                         report.plan.warnings.end());
  return report;
}

PlacementTable table_of(const BalanceProblem& problem, const BalanceReport& report) {
  const LoadMatrix& load = problem.demand.load;
  PlacementTable table;
  table.experts = load.experts();
  table.layers.assign(load.layers().begin(), load.layers().end());
  table.dense_layers = problem.series.dense_layers;
  for (const SlotLists& lists : report.after) {
    table.slots.push_back(of_ranks_left(lists, report.cluster));
  }
  table.replicas = copies_of(problem, report);
  const Topology& topology = report.cluster.topology;
  if (topology.nodes() > 1 && !report.without) {
    for (std::int32_t p = 0; p < topology.ranks(); ++p) {
      table.node_of.push_back(topology.node_of(Rank(p)));
    }
  }
  if (problem.table) {
    table.generation = problem.table->generation + 1;
    table.checkpoint = problem.table->checkpoint;
    table.group = problem.table->group;
  }
  if (table.checkpoint.value.empty()) table.checkpoint = load.provenance().checkpoint;
  table.plan = {std::string(name(problem.options.solver)), report.plan.mean_ratio_before(),
                report.plan.mean_ratio_after(), report.plan.changed_slots(),
                report.plan.migration_bytes()};
  table.load = load.provenance();
  return table;
}

std::int32_t duplicates(const SlotLists& lists) {
  std::int32_t count = 0;
  for (std::vector<std::int32_t> list : lists) {
    std::ranges::sort(list);
    count += static_cast<std::int32_t>(list.end() - std::unique(list.begin(), list.end()));
  }
  return count;
}

std::vector<double> shares_of_mean(std::span<const double> load, const SlotLists& lists,
                                   const Cluster& cluster) {
  std::vector<double> shares = rank_loads(load, lists);
  const auto taking_part = static_cast<double>(
      cluster.slots.size() - static_cast<std::size_t>(std::ranges::count(cluster.slots, 0)));
  const double mean = std::accumulate(shares.begin(), shares.end(), 0.0) / taking_part;
  for (std::size_t p = 0; p < shares.size(); ++p) {
    if (cluster.slots[p] == 0) {
      shares[p] = std::numeric_limits<double>::quiet_NaN();
    } else {
      shares[p] = mean > 0 ? shares[p] / mean : 1;
    }
  }
  return shares;
}

std::optional<PayOffSum> pay_off_of(const BalancePlan& plan) {
  const bool moves = std::ranges::any_of(
      plan.layers, [](const LayerPlan& layer) { return layer.verdict == Verdict::moves; });
  std::optional<PayOffSum> sum;
  for (const LayerPlan& layer : plan.layers) {
    if (!layer.saved_us || (moves && layer.verdict != Verdict::moves)) continue;
    if (!sum) sum.emplace();
    sum->saved_us += *layer.saved_us;
    sum->migration_us += *layer.migration_us;
  }
  return sum;
}

}  // namespace waybill::cli
