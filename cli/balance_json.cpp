// The report of `balance` for a program.
#include <cmath>
#include <nlohmann/json.hpp>

#include "balance_result.h"
#include "text.h"

namespace waybill::cli {
namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json terms_json(const ObjectiveTerms& terms, const BalanceOptions& options) {
  const bool sized = options.expert_bytes > 0;
  return {{"balance_ratio", terms.balance_ratio},
          {"largest_rank", terms.largest_rank},
          {"inter_node", or_null(terms.inter_node)},
          {"migration_bytes", sized ? Json(terms.migration_bytes) : Json(nullptr)},
          {"resident_bytes", sized ? Json(terms.resident_bytes) : Json(nullptr)},
          {"changed_slots", terms.changed_slots},
          {"total", terms.total}};
}

Json shares_json(const std::vector<double>& shares) {
  Json json = Json::array();
  for (double share : shares) json.push_back(std::isnan(share) ? Json(nullptr) : Json(share));
  return json;
}

Json layer_json(const BalanceProblem& problem, const BalanceReport& report, std::size_t i) {
  const LayerPlan& layer = report.plan.layers[i];
  const std::vector<double> load = problem.demand.load.total(i);
  Json json = {{"layer", layer.layer.value},
               {"before", terms_json(layer.before, problem.options)},
               {"after", terms_json(layer.after, problem.options)},
               {"attainable_ratio", layer.attainable_ratio},
               {"duplicates_before", nullptr},
               {"duplicates_after", duplicates(report.after[i])},
               {"verdict", name(layer.verdict)},
               {"reason", layer.reason},
               {"saved_us", or_null(layer.saved_us)},
               {"migration_us", or_null(layer.migration_us)}};
  if (layer.proof) {
    json["proof"] = {{"status", name(layer.proof->status)}, {"bound", layer.proof->bound}};
  }
  if (!report.before.empty()) {
    json["duplicates_before"] = duplicates(report.before[i]);
    json["rank_load_before"] = shares_json(shares_of_mean(load, report.before[i], problem.cluster));
  }
  json["rank_load_after"] = shares_json(shares_of_mean(load, report.after[i], report.cluster));
  json["experts_by_rank"] = report.after[i];
  if (report.without) {
    const LostRankLayer& lost = report.without->layers[i];
    Json gone = Json::array(), reloads = Json::array();
    for (ExpertId e : lost.gone) gone.push_back(e.value);
    for (const Reload& reload : lost.reloads) {
      reloads.push_back({{"expert", reload.expert.value}, {"rank", reload.rank.value}});
    }
    json["gone"] = gone;
    json["reloads"] = reloads;
  }
  return json;
}

Json loads_json(const BalanceCommand& command, const BalanceProblem& problem) {
  const LoadMatrix& load = problem.demand.load;
  Json dense = Json::array();
  for (LayerId layer : problem.series.dense_layers) dense.push_back(layer.value);
  return {{"file", command.loads},
          {"format", name(problem.series.format)},
          {"experts", load.experts()},
          {"sources", load.sources()},
          {"dense_layers", dense},
          {"unit", name(load.provenance().unit)},
          {"phase", name(load.provenance().phase)},
          {"windows", problem.demand.windows},
          {"idle_windows", problem.demand.idle}};
}

Json pay_off_json(const BalanceProblem& problem, const BalanceReport& report) {
  if (!problem.options.pay_off) return nullptr;
  const PayOffSum sum = pay_off_of(report.plan).value_or(PayOffSum{});
  return {{"pays", report.plan.changed_slots() > 0},
          {"saved_us", sum.saved_us},
          {"migration_us", sum.migration_us}};
}

}  // namespace

void print_json(const BalanceCommand& command, const BalanceProblem& problem,
                const BalanceReport& report) {
  Json layers = Json::array();
  for (std::size_t i = 0; i < report.plan.layers.size(); ++i) {
    layers.push_back(layer_json(problem, report, i));
  }
  Json lost = Json::array();
  for (Rank rank : problem.lost) lost.push_back(rank.value);
  const BalanceOptions& options = problem.options;
  const bool known = !report.before.empty();
  write_json(
      {{"loads", loads_json(command, problem)},
       {"ranks", report.cluster.topology.ranks()},
       {"nodes", report.cluster.topology.nodes()},
       {"rank_slots", report.cluster.slots},
       {"in_force", command.from.empty() ? Json(nullptr) : Json(command.from)},
       {"options",
        {{"solver", command.solver},
         {"locality", command.locality},
         {"groups", command.groups},
         {"min_gain", options.min_gain},
         {"expert_bytes", options.expert_bytes > 0 ? Json(options.expert_bytes) : Json(nullptr)}}},
       {"lost_ranks", lost},
       {"mean_ratio_before", report.plan.mean_ratio_before()},
       {"mean_ratio_after", report.plan.mean_ratio_after()},
       {"balancedness_before", known ? Json(report.balancedness_before) : Json(nullptr)},
       {"balancedness_after", report.balancedness_after},
       {"changed_slots", report.plan.changed_slots()},
       {"migration_bytes",
        options.expert_bytes > 0 ? Json(report.plan.migration_bytes()) : Json(nullptr)},
       {"pay_off", pay_off_json(problem, report)},
       {"objective",
        {{"weights",
          {{"balance", options.weights.balance},
           {"inter_node", options.weights.inter_node},
           {"migration", options.weights.migration},
           {"resident", options.weights.resident},
           {"churn", options.weights.churn}}}}},
       {"layers", layers},
       {"warnings", report.warnings},
       {"written", command.out.empty() ? Json(nullptr)
                                       : Json{{"file", command.out}, {"format", command.format}}}});
}

}  // namespace waybill::cli
