// What `balance` is asked, and what it worked out, before it is printed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "demand.h"
#include "file_options.h"
#include "waybill/balance.h"
#include "waybill/placement_file.h"

namespace waybill::cli {

// As typed.
struct BalanceCommand {
  std::string loads;
  FileOptions files;
  WindowOptions windows;
  std::int64_t ranks = 0, nodes = 0, groups = 1;  // 0: not given
  std::int32_t slots = 0;                         // 0: not given
  std::string topology, from;
  std::uint64_t memory_bytes = 0;  // of a rank, for the experts of all layers
  std::string solver = "waybill", locality = "auto";
  double exact_seconds = 10;
  std::int64_t threads = 0;  // 0: one a core
  std::uint64_t expert_bytes = 0;
  std::string shape;
  double link_gbps = 0, step_us = 0;
  std::int64_t horizon = 0;
  double min_gain = 0.005;
  std::int64_t max_moves = -1;
  std::string lost_rank;
  std::string out, format;
  bool explain = false, json = false;
};
inline constexpr std::int32_t auto_slots = -1;

// What the solver gets.
struct BalanceProblem {
  Demand demand;
  LoadSeries series;  // that the demand is of
  Cluster cluster;
  std::string slots_reason;  // why there are so many
  std::optional<PlacementTable> table;
  std::vector<SlotLists> in_force;  // one a layer, or none
  BalanceOptions options;
  std::vector<Rank> lost;
  std::vector<std::string> warnings;
};
BalanceProblem resolve(const BalanceCommand& command);

struct BalanceReport {
  BalancePlan plan;
  Cluster cluster;                       // that the plan is for: lost ranks have no slots
  std::optional<LostRankPlan> without;   // with --lost-rank; its layers' plans are in `plan`
  std::vector<SlotLists> before, after;  // one a layer; `before` is empty when ranks are lost
  double balancedness_before = 1, balancedness_after = 1;  // 0x08D, its reciprocal
  std::vector<std::string> warnings;
};
BalanceReport solve(const BalanceProblem& problem);

// The plan as a placement to be written. Ranks that are left after a loss are numbered anew, in
// their order.
PlacementTable table_of(const BalanceProblem& problem, const BalanceReport& report);

// Slots whose expert has another copy on the same rank.
std::int32_t duplicates(const SlotLists& lists);
// Rank loads over their mean, by rank; NaN for ranks without slots.
std::vector<double> shares_of_mean(std::span<const double> load, const SlotLists& lists,
                                   const Cluster& cluster);

// Sums over the layers that move, or over all when none does; nullopt without pay-off values.
struct PayOffSum {
  double saved_us = 0, migration_us = 0;
};
std::optional<PayOffSum> pay_off_of(const BalancePlan& plan);

void print_text(const BalanceCommand& command, const BalanceProblem& problem,
                const BalanceReport& report);
void print_json(const BalanceCommand& command, const BalanceProblem& problem,
                const BalanceReport& report);

}  // namespace waybill::cli
