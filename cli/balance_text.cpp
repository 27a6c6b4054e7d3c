// The report of `balance` for a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "balance_result.h"
#include "rank_chart.h"
#include "text.h"

namespace waybill::cli {
namespace {

std::string plural(std::int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string microseconds_text(double us) {
  return time_text(static_cast<std::int64_t>(std::llround(us * 1e3)));
}

// At most ten characters.
std::string quantity_text(double value) {
  if (value >= 1e9) return fmt::format("{:.3f} G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.3f} M", value / 1e6);
  return value >= 1e3 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string bytes_or_unknown(std::uint64_t bytes, const BalanceOptions& options) {
  return options.expert_bytes == 0 ? "?" : bytes_text(static_cast<std::int64_t>(bytes));
}

std::string loads_line(const BalanceCommand& command, const BalanceProblem& problem) {
  const LoadMatrix& load = problem.demand.load;
  std::string text = fmt::format("{}{} ({}): {} of {} experts", command.loads,
                                 command.files.set.empty() ? "" : " set " + command.files.set,
                                 name(problem.series.format),
                                 plural(std::ssize(load.layers()), "layer"), load.experts());
  if (load.sources() > 1) text += fmt::format(" from {} source nodes", load.sources());
  text +=
      fmt::format("; {}, {} phase, {}", name(load.provenance().unit), name(load.provenance().phase),
                  plural(static_cast<std::int64_t>(problem.demand.windows), "window"));
  if (problem.demand.idle > 0) text += fmt::format(" ({} idle left out)", problem.demand.idle);
  return text;
}

std::string head(const BalanceCommand& command, const BalanceProblem& problem) {
  const Cluster& cluster = problem.cluster;
  std::vector<std::int64_t> slots(cluster.slots.begin(), cluster.slots.end());
  std::string text = field("loads", loads_line(command, problem));
  text += field("ranks", fmt::format("{} on {}", plural(cluster.topology.ranks(), "rank"),
                                     plural(cluster.topology.nodes(), "node")));
  text +=
      field("slots", fmt::format("{} ({} by rank){}",
                                 std::accumulate(slots.begin(), slots.end(), std::int64_t{0}),
                                 counts_text(slots),
                                 problem.slots_reason.empty() ? "" : ": " + problem.slots_reason));
  text += field("in force", command.from.empty()
                                ? "nothing: compared with contiguous runs without replicas"
                                : command.from);
  text += field("solver",
                fmt::format("{}, locality {}{}", command.solver, command.locality,
                            command.groups > 1 ? fmt::format(", {} groups", command.groups) : ""));
  return text;
}

std::string layer_table(const BalanceProblem& problem, const BalanceReport& report) {
  constexpr std::string_view line = "{:>5} {:>9} {:>9} {:>8} {:>6} {:>8} {:>11}  {}\n";
  std::string text = fmt::format("{:>5} {:^19} {:^15} {:>8} {:>11}\n", "", "largest / mean",
                                 "duplicates", "changed", "bytes");
  text +=
      fmt::format(line, "layer", "before", "after", "before", "after", "slots", "moved", "verdict");
  for (std::size_t i = 0; i < report.plan.layers.size(); ++i) {
    const LayerPlan& layer = report.plan.layers[i];
    const bool moving = !problem.in_force.empty();
    text += fmt::format(
        fmt::runtime(line), layer.layer.value, fmt::format("{:.4f}", layer.before.balance_ratio),
        fmt::format("{:.4f}", layer.after.balance_ratio),
        report.before.empty() ? "-" : fmt::format("{}", duplicates(report.before[i])),
        duplicates(report.after[i]), moving ? fmt::format("{}", layer.after.changed_slots) : "-",
        moving ? bytes_or_unknown(layer.after.migration_bytes, problem.options) : "-",
        name(layer.verdict));
  }
  return text;
}

const LayerPlan& worst(const BalancePlan& plan, ObjectiveTerms LayerPlan::*when) {
  return *std::ranges::max_element(
      plan.layers, {}, [when](const LayerPlan& layer) { return (layer.*when).balance_ratio; });
}

std::string pay_off_line(const BalanceProblem& problem, const BalanceReport& report) {
  if (!problem.options.pay_off) {
    return fmt::format(
        "gain only, pay-off unknown: --expert-bytes (or --shape), --link-gbps, "
        "--step-us and --horizon tell; a gain below {:.2g} % stays",
        100 * problem.options.min_gain);
  }
  const auto sum = pay_off_of(report.plan);
  if (!sum) return "nothing better was found, so nothing is weighed";
  const bool pays = report.plan.changed_slots() > 0;
  return fmt::format("{}: saves {} over {}, moving stalls {}", pays ? "pays" : "does not pay",
                     microseconds_text(sum->saved_us),
                     plural(problem.options.pay_off->horizon_steps, "step"),
                     microseconds_text(sum->migration_us));
}

std::string moves_line(const BalanceProblem& problem, const BalanceReport& report) {
  const BalancePlan& plan = report.plan;
  std::int64_t slots = 0;
  for (const SlotLists& lists : report.after) {
    for (const auto& list : lists) slots += std::ssize(list);
  }
  const auto changing = std::ranges::count_if(
      plan.layers, [](const LayerPlan& layer) { return layer.after.changed_slots > 0; });
  return fmt::format("{} of {} slots, in {}; {}", plan.changed_slots(), slots,
                     plural(changing, "layer"),
                     problem.options.expert_bytes == 0
                         ? "bytes unknown (--expert-bytes or --shape)"
                         : bytes_text(static_cast<std::int64_t>(plan.migration_bytes())));
}

std::string summary(const BalanceProblem& problem, const BalanceReport& report) {
  const BalancePlan& plan = report.plan;
  const LayerPlan& before = worst(plan, &LayerPlan::before);
  const LayerPlan& after = worst(plan, &LayerPlan::after);
  std::string text =
      field("balance",
            fmt::format(
                "largest rank over mean, mean of layers: {:.4f} -> {:.4f}; "
                "balancedness {}{:.4f}",
                plan.mean_ratio_before(), plan.mean_ratio_after(),
                report.before.empty() ? "" : fmt::format("{:.4f} -> ", report.balancedness_before),
                report.balancedness_after));
  text += field("worst", fmt::format("layer {} before ({:.4f}), layer {} after ({:.4f})",
                                     before.layer.value, before.before.balance_ratio,
                                     after.layer.value, after.after.balance_ratio));
  if (!problem.in_force.empty()) {
    text += field("moves", moves_line(problem, report));
    text += field("pay-off", pay_off_line(problem, report));
  }
  std::size_t optimal = 0;
  double bound = 0;
  for (const LayerPlan& layer : plan.layers) {
    if (!layer.proof) return text;
    optimal += layer.proof->status == ProofStatus::optimal ? 1 : 0;
    bound += layer.proof->bound / static_cast<double>(plan.layers.size());
  }
  return text +
         field("proof", fmt::format("optimal in {} of {}; no plan has a mean below {:.4f}", optimal,
                                    plural(std::ssize(plan.layers), "layer"), bound));
}

// One term of 0x08I: a value in its unit, and over its norm.
struct Term {
  std::string_view name, unit, norm;
  double weight = 0;
  std::string before, after;
  double normed_before = 0, normed_after = 0;
  bool known = true;
};

double mean_of(const BalanceReport& report, ObjectiveTerms LayerPlan::*when,
               double (*value)(const ObjectiveTerms&)) {
  double sum = 0;
  for (const LayerPlan& layer : report.plan.layers) sum += value(layer.*when);
  return sum / static_cast<double>(report.plan.layers.size());
}

// The means of `value` before and after, not yet divided by a norm.
Term term(std::string_view name, const BalanceReport& report,
          double (*value)(const ObjectiveTerms&)) {
  Term made;
  made.name = name;
  made.normed_before = mean_of(report, &LayerPlan::before, value);
  made.normed_after = mean_of(report, &LayerPlan::after, value);
  made.before = quantity_text(made.normed_before);
  made.after = quantity_text(made.normed_after);
  return made;
}

void divide(Term& term, double norm) {
  term.normed_before = norm > 0 ? term.normed_before / norm : 0;
  term.normed_after = norm > 0 ? term.normed_after / norm : 0;
}

double changed_slots(const ObjectiveTerms& terms) { return 1.0 * terms.changed_slots; }

Term balance_term(const BalanceProblem& problem, const BalanceReport& report) {
  Term made = term("balance", report, [](const ObjectiveTerms& t) { return t.largest_rank; });
  made.normed_before = report.plan.mean_ratio_before();
  made.normed_after = report.plan.mean_ratio_after();
  made.unit = name(problem.demand.load.provenance().unit);
  made.norm = "the mean rank";
  made.weight = problem.options.weights.balance;
  return made;
}

Term inter_node_term(const BalanceProblem& problem, const BalanceReport& report) {
  const LoadMatrix& load = problem.demand.load;
  double rows = 0;
  for (std::size_t i = 0; i < load.layers().size(); ++i) {
    const auto own = load.by_source(i);
    rows +=
        std::accumulate(own.begin(), own.end(), 0.0) / static_cast<double>(load.layers().size());
  }
  Term made =
      term("inter_node", report, [](const ObjectiveTerms& t) { return t.inter_node.value_or(0); });
  made.known = report.plan.layers.front().after.inter_node.has_value();
  if (!made.known) made.before = made.after = "?";
  divide(made, rows);
  made.unit = name(load.provenance().unit);
  made.norm = "all of a layer";
  made.weight = problem.options.weights.inter_node;
  return made;
}

std::string bytes_of(double slots, const BalanceOptions& options) {
  return bytes_or_unknown(
      static_cast<std::uint64_t>(slots * static_cast<double>(options.expert_bytes)), options);
}

Term migration_term(double slots, const BalanceOptions& options, const BalanceReport& report) {
  Term made = term("migration", report, changed_slots);
  made.before = bytes_of(made.normed_before, options);
  made.after = bytes_of(made.normed_after, options);
  divide(made, slots);
  made.unit = "bytes";
  made.norm = "all slots";
  made.weight = options.weights.migration;
  return made;
}

Term resident_term(double slots, const BalanceProblem& problem, const BalanceReport& report) {
  double held = report.before.empty() ? slots : 0;
  for (const SlotLists& lists : report.before) {
    for (const auto& list : lists) {
      held += static_cast<double>(list.size()) / static_cast<double>(report.before.size());
    }
  }
  Term made;
  made.name = "resident";
  made.before = bytes_of(held, problem.options);
  made.after = bytes_of(slots, problem.options);
  made.normed_before = held;
  made.normed_after = slots;
  divide(made, problem.demand.load.experts());
  made.unit = "bytes";
  made.norm = "one copy each";
  made.weight = problem.options.weights.resident;
  return made;
}

Term churn_term(double slots, const BalanceOptions& options, const BalanceReport& report) {
  Term made = term("churn", report, changed_slots);
  divide(made, slots);
  made.unit = "slots";
  made.norm = "all slots";
  made.weight = options.weights.churn;
  return made;
}

std::vector<Term> objective(const BalanceProblem& problem, const BalanceReport& report) {
  const auto slots = static_cast<double>(
      std::accumulate(report.cluster.slots.begin(), report.cluster.slots.end(), 0));
  return {balance_term(problem, report), inter_node_term(problem, report),
          migration_term(slots, problem.options, report), resident_term(slots, problem, report),
          churn_term(slots, problem.options, report)};
}

std::string explanation(const BalanceProblem& problem, const BalanceReport& report) {
  constexpr std::string_view line = "{:<11}{:<6} {:>10} {:>10}  {:<14} {:>8} {:>8} {:>6}\n";
  std::string text =
      "\nObjective, means over layers: the sum of weight x term / norm is to be small\n";
  text += fmt::format(line, "term", "unit", "before", "after", "norm", "before", "after", "weight");
  double before = 0, after = 0;
  for (const Term& t : objective(problem, report)) {
    const auto normed = [&](double value) { return t.known ? fmt::format("{:.4f}", value) : "?"; };
    text += fmt::format(fmt::runtime(line), t.name, t.unit, t.before, t.after, t.norm,
                        normed(t.normed_before), normed(t.normed_after), t.weight);
    before += t.known ? t.weight * t.normed_before : 0;
    after += t.known ? t.weight * t.normed_after : 0;
  }
  text += fmt::format("{:<57} {:>8.4f} {:>8.4f}\n", "sum", before, after);
  text += "\nWhy, by layer\n";
  for (const LayerPlan& layer : report.plan.layers) {
    text += field(fmt::format("{:>5}", layer.layer.value), layer.reason, 7);
  }
  return text;
}

std::string lost_part(const BalanceProblem& problem, const LostRankPlan& without) {
  std::vector<std::int32_t> lost;
  for (Rank rank : problem.lost) lost.push_back(rank.value);
  std::string text =
      field("lost", fmt::format("rank{} {}", lost.size() == 1 ? "" : "s", fmt::join(lost, " ")));
  for (const LostRankLayer& layer : without.layers) {
    std::vector<std::int32_t> gone;
    for (ExpertId e : layer.gone) gone.push_back(e.value);
    std::vector<std::string> reloads;
    for (const Reload& reload : layer.reloads) {
      reloads.push_back(fmt::format("{} on rank {}", reload.expert.value, reload.rank.value));
    }
    const std::string label = fmt::format("layer {}", layer.layer.value);
    text +=
        field(label, gone.empty() ? "every expert has a copy left"
                                  : fmt::format("no copy left of {} {}; reload {}",
                                                gone.size() == 1 ? "expert" : "experts",
                                                fmt::join(gone, " "), fmt::join(reloads, ", ")));
  }
  return text;
}

std::string chart(const BalanceProblem& problem, const BalanceReport& report) {
  const LayerPlan& layer =
      worst(report.plan, report.before.empty() ? &LayerPlan::after : &LayerPlan::before);
  const auto i = static_cast<std::size_t>(&layer - report.plan.layers.data());
  const std::vector<double> load = problem.demand.load.total(i);
  std::vector<double> before;
  if (!report.before.empty()) before = shares_of_mean(load, report.before[i], problem.cluster);
  const std::vector<double> after = shares_of_mean(load, report.after[i], report.cluster);
  return fmt::format("\nRanks in layer {}, the worst\n{}", layer.layer.value,
                     rank_chart(before, after, stdout_takes_colour()));
}

std::string written(const BalanceCommand& command, const BalanceReport& report) {
  if (command.out.empty()) return {};
  return field("wrote", fmt::format("{} ({}){}", command.out, command.format,
                                    report.without ? ", ranks that are left numbered anew" : ""));
}

}  // namespace

void print_text(const BalanceCommand& command, const BalanceProblem& problem,
                const BalanceReport& report) {
  std::string text = head(command, problem);
  for (const std::string& warning : report.warnings) text += field("warning", warning);
  if (report.without) text += '\n' + lost_part(problem, *report.without);
  text += '\n' + layer_table(problem, report) + '\n' + summary(problem, report);
  text += written(command, report);
  text += chart(problem, report);
  if (command.explain) text += explanation(problem, report);
  write_text(text);
}

}  // namespace waybill::cli
