// The report of `run` for a program.
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "failure.h"
#include "ledger_json.h"
#include "run_result.h"
#include "text.h"

namespace waybill::cli {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity: an error that is none is null.
Json finite_or_null(std::optional<double> error) {
  return error && std::isfinite(*error) ? Json(*error) : Json();
}

Json errors_json(std::optional<double> max_rel_error, std::optional<double> rel_frobenius) {
  return {{"max_rel_error", finite_or_null(max_rel_error)},
          {"rel_frobenius", finite_or_null(rel_frobenius)},
          {"finite", !max_rel_error || std::isfinite(*max_rel_error)}};
}

Json comparison_json(const Comparison& comparison) {
  const auto errors = [&](const Accuracy& accuracy) {
    if (comparison.tokens == 0) return errors_json(std::nullopt, std::nullopt);
    return errors_json(accuracy.max_rel_error(), accuracy.rel_frobenius());
  };
  return {{"tokens", comparison.tokens},
          {"experts_out", errors(comparison.experts_out)},
          {"block_out", errors(comparison.block_out)},
          {"topk_differs", comparison.topk_differs}};
}

Json times_json(const StepReport::Times& times) {
  return {{"load_ns", times.load.value},         {"plan_ns", times.plan.value},
          {"agree_ns", times.agree.value},       {"pack_ns", times.pack.value},
          {"dispatch_ns", times.dispatch.value}, {"experts_ns", times.experts.value},
          {"return_ns", times.give_back.value},  {"combine_ns", times.combine.value},
          {"total_ns", times.total.value}};
}

Json layer_json(const LayerRun& layer) {
  Json json = {{"layer", layer.layer.value},
               {"rows", to_json(layer.rows)},
               {"rank_rows", layer.rank_rows},
               {"busiest_over_mean", layer.busiest_over_mean()},
               {"logical_bytes", to_json(layer.bytes)},
               {"live_bytes", to_json(layer.live)},
               {"reserved_bytes_largest_rank", layer.reserved.value},
               {"measured", times_json(layer.slowest)}};
  if (layer.check) {
    json["check"] = comparison_json(*layer.check);
    json["check"]["gates_differ"] = layer.check->gates_differ;
    json["check"]["tied_choices"] = layer.check->tied_choices;
  }
  if (layer.golden) json["golden"] = comparison_json(*layer.golden);
  return json;
}

}  // namespace

void print_json(const RunOptions& options, const RunResult& result) {
  Json layers = Json::array();
  for (const LayerRun& layer : result.layers) layers.push_back(layer_json(layer));
  Json violations = Json::array();
  for (const Error& violation : result.violations) violations.push_back(to_json(violation));
  Json report = {{"model", to_json(result.model)},
                 {"unused_tensors", result.unused_tensors},
                 {"options", to_json(options.step)},
                 {"placement", result.placement},
                 {"peer_order", result.peer_order},
                 {"rank_slots", result.rank_slots},
                 {"rank_tokens", result.rank_tokens},
                 {"kernels", result.kernels},
                 {"layers", layers},
                 {"measured", {{"peak_resident_bytes", result.peak_resident.value}}},
                 {"output_sha256", result.output_sha256},
                 {"compared_rows", result.compared_rows()}};
  report.update(errors_json(result.max_rel_error(), result.rel_frobenius()));
  report["violations"] = violations;
  write_json(report);
}

}  // namespace waybill::cli
