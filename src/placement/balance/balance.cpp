#include "waybill/balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "placement/balance/cluster.h"
#include "placement/balance/decision.h"
#include "placement/balance/eplb_layer.h"
#include "placement/balance/exact_layer.h"
#include "placement/balance/frontier.h"
#include "placement/balance/homes.h"
#include "placement/balance/index.h"
#include "placement/balance/objective.h"
#include "placement/balance/refill.h"
#include "placement/balance/slots.h"
#include "placement/balance/solve_layer.h"
#include "waybill/error.h"

namespace waybill {
namespace {

// Once the way from the placement in force gets this far, a solve from scratch can't gain more than
// the demand's own noise.
constexpr double kNearlyEven = 1.002;

class Planner {
 public:
  Planner(const LoadMatrix& load, const Cluster& cluster, std::span<const SlotLists> in_force,
          const BalanceOptions& options)
      : load_(load),
        cluster_(cluster),
        in_force_(in_force),
        options_(options),
        frame_(frame(load.experts(), static_cast<std::int32_t>(load.layers().size()), cluster,
                     options)) {
    if (options.solver == Solver::eplb) eplb_ = eplb_plan(load, frame_.problem, options);
  }

  const std::vector<std::string>& warnings() const {
    return eplb_ ? eplb_->warnings : frame_.warnings;
  }

  LayerPlan plan(std::size_t i) const {
    LayerPlan plan;
    plan.layer = load_.layers()[i];
    const std::vector<double> total = load_.total(i);
    const double sum = std::accumulate(total.begin(), total.end(), 0.0);
    const SlotLists held = in_force_.empty() ? SlotLists{} : participating(in_force_[i]);

    LayerProblem problem = frame_.problem;
    // Without a signal every expert counts the same, which spreads the spare slots.
    for (double load : total) {
      problem.load.push_back(problem.ranks() * (sum > 0 ? load / sum : 1.0 / load_.experts()));
    }
    problem.home.assign(total.size(), 0);
    if (problem.keep_home) problem.home = assign_homes(problem, options_.groups, held);

    plan.slots = everywhere(choose(problem, i, held, sum > 0, plan));
    const SlotLists& before = in_force_.empty() ? contiguous() : in_force_[i];
    plan.before = objective(i, before, before);
    plan.after = objective(i, in_force_.empty() ? plan.slots : before, plan.slots);
    return plan;
  }

 private:
  // The placement to use; fills in verdict, reason and what was weighed.
  SlotLists choose(const LayerProblem& problem, std::size_t layer, const SlotLists& held,
                   bool signal, LayerPlan& plan) const {
    const bool usable = !held.empty() && keeps_slots(problem, held);
    if (!signal && usable) {
      plan.verdict = Verdict::no_signal;
      plan.reason = "stays: no load signal";
      return held;
    }
    const std::vector<Candidate> found = candidates(problem, layer, held, plan.proof);
    const auto best = std::ranges::min_element(found, {}, &Candidate::ratio);
    plan.attainable_ratio = best->ratio;
    if (held.empty()) {
      plan.verdict = signal ? Verdict::placed : Verdict::no_signal;
      plan.reason = signal ? "placed: no placement in force"
                           : "placed: no load signal, spare slots spread over the experts";
      return lists_of(problem, best->experts);
    }
    const Stake stake{ratio(problem, held), problem.slots(),
                      static_cast<std::int32_t>(load_.layers().size()), !usable};
    const Decision decision = decide(stake, found, options_);
    plan.verdict = decision.verdict;
    plan.reason = decision.reason;
    plan.saved_us = decision.saved_us;
    plan.migration_us = decision.migration_us;
    if (!decision.chosen) return held;
    return keep_positions(held, lists_of(problem, found[*decision.chosen].experts));
  }

  std::vector<Candidate> candidates(const LayerProblem& problem, std::size_t layer,
                                    const SlotLists& held, std::optional<Proof>& proof) const {
    std::vector<Candidate> found;
    if (eplb_) {
      const SlotLists lists = eplb_lists(*eplb_, layer, problem.ranks());
      found.push_back({slots_of(lists), ratio(problem, lists), changed_slots(held, lists),
                       most_changed_slots(held, lists)});
      return found;
    }
    if (!held.empty()) {
      if (const auto start = refill(problem, held)) found = frontier(problem, *start, held);
    }
    if (options_.solver == Solver::exact) {
      const ExactLayer exact = solve_exactly(problem, solve_layer(problem), options_.exact_seconds);
      found.push_back(from_scratch(problem, exact.experts, held));
      proof = exact.proof;
    } else if (found.empty() || found.back().ratio > kNearlyEven) {
      found.push_back(from_scratch(problem, solve_layer(problem), held));
    }
    return found;
  }

  // Whether lists fill exactly the slots that there are and hold every expert.
  static bool keeps_slots(const LayerProblem& problem, const SlotLists& lists) {
    for (std::int32_t p = 0; p < problem.ranks(); ++p) {
      if (lists[at(p)].size() != at(problem.slots_on(p))) return false;
    }
    return without_copy(lists, problem.experts()).empty();
  }
  static double ratio(const LayerProblem& problem, const SlotLists& lists) {
    return balance_ratio(problem.load, lists, problem.speed);
  }

  // Lists of the ranks that take part, and back to all ranks.
  SlotLists participating(const SlotLists& lists) const {
    SlotLists some;
    for (std::int32_t p : frame_.ranks) some.push_back(lists[at(p)]);
    return some;
  }
  SlotLists everywhere(const SlotLists& lists) const {
    SlotLists all(cluster_.slots.size());
    for (std::size_t i = 0; i < lists.size(); ++i) all[at(frame_.ranks[i])] = lists[i];
    return all;
  }
  SlotLists contiguous() const {
    SlotLists lists(cluster_.slots.size());
    const std::int32_t experts = load_.experts();
    const auto ranks = static_cast<std::int32_t>(frame_.ranks.size());
    std::int32_t e = 0;
    for (std::int32_t i = 0; i < ranks; ++i) {
      for (std::int32_t n = experts / ranks + (i < experts % ranks ? 1 : 0); n > 0; --n) {
        lists[at(frame_.ranks[at(i)])].push_back(e++);
      }
    }
    return lists;
  }

  ObjectiveTerms objective(std::size_t i, const SlotLists& from, const SlotLists& to) const {
    return objective_terms(load_, i, cluster_, from, to, options_);
  }

  const LoadMatrix& load_;
  const Cluster& cluster_;
  std::span<const SlotLists> in_force_;
  const BalanceOptions& options_;
  ProblemFrame frame_;
  std::optional<EplbPlan> eplb_;
};

void check_seconds(const BalanceOptions& options) {
  if (std::isfinite(options.exact_seconds) && options.exact_seconds > 0) return;
  throw Error(Code::InvalidValue)
      .at("field", "exact_seconds")
      .expected("above 0")
      .found(options.exact_seconds);
}

void check_pay_off(const BalanceOptions& options) {
  if (!options.pay_off) return;
  const auto want = [](std::string_view field, double value) {
    if (std::isfinite(value) && value > 0) return;
    throw Error(Code::InvalidValue).at("field", field).expected("above 0").found(value);
  };
  want("link_gbps", options.pay_off->link_gbps);
  want("step_us", options.pay_off->step_us);
  want("horizon_steps", static_cast<double>(options.pay_off->horizon_steps));
  want("expert_bytes", static_cast<double>(options.expert_bytes));
}

void warn_of_zero_layers(const LoadMatrix& load, BalancePlan& plan) {
  for (std::size_t i = 0; i < load.layers().size(); ++i) {
    if (std::ranges::any_of(load.by_source(i), [](double value) { return value > 0; })) continue;
    plan.warnings.push_back(fmt::format("layer {} has no load signal", load.layers()[i].value));
  }
}

}  // namespace

BalancePlan balance(const LoadMatrix& load, const Cluster& cluster,
                    std::span<const SlotLists> in_force, const BalanceOptions& options) {
  const Planner planner(load, cluster, in_force, options);
  check_in_force(load, cluster, in_force);
  check_pay_off(options);
  check_seconds(options);
  BalancePlan plan;
  plan.warnings = planner.warnings();
  warn_of_zero_layers(load, plan);
  plan.layers.resize(load.layers().size());
  const auto solve = [&](std::int32_t i) { plan.layers[at(i)] = planner.plan(at(i)); };
  const auto layers = static_cast<std::int32_t>(plan.layers.size());
  if (options.pool != nullptr) {
    options.pool->run(layers, solve);
  } else {
    for (std::int32_t i = 0; i < layers; ++i) solve(i);
  }
  return plan;
}

double BalancePlan::mean_ratio_before() const {
  double sum = 0;
  for (const LayerPlan& layer : layers) sum += layer.before.balance_ratio;
  return layers.empty() ? 1 : sum / static_cast<double>(layers.size());
}

double BalancePlan::mean_ratio_after() const {
  double sum = 0;
  for (const LayerPlan& layer : layers) sum += layer.after.balance_ratio;
  return layers.empty() ? 1 : sum / static_cast<double>(layers.size());
}

std::int32_t BalancePlan::changed_slots() const {
  std::int32_t sum = 0;
  for (const LayerPlan& layer : layers) sum += layer.after.changed_slots;
  return sum;
}

std::uint64_t BalancePlan::migration_bytes() const {
  std::uint64_t sum = 0;
  for (const LayerPlan& layer : layers) sum += layer.after.migration_bytes;
  return sum;
}

std::string_view name(Solver solver) {
  switch (solver) {
    case Solver::waybill: return "waybill";
    case Solver::eplb: return "eplb";
    case Solver::exact: return "exact";
  }
  return "";
}

std::string_view name(ProofStatus status) {
  switch (status) {
    case ProofStatus::optimal: return "optimal";
    case ProofStatus::bounded: return "bounded";
    case ProofStatus::timed_out: return "timed_out";
  }
  return "";
}

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::placed: return "placed";
    case Verdict::moves: return "moves";
    case Verdict::no_signal: return "no_signal";
    case Verdict::balanced: return "balanced";
    case Verdict::gain_too_small: return "gain_too_small";
    case Verdict::does_not_pay: return "does_not_pay";
  }
  return "";
}

}  // namespace waybill
