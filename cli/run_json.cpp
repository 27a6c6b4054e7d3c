// The report of `run` for a program.
#include <nlohmann/json.hpp>

#include "failure.h"
#include "ledger_json.h"
#include "run_result.h"
#include "text.h"

namespace waybill::cli {
namespace {

using Json = nlohmann::ordered_json;

Json accuracy_json(const Accuracy& accuracy) {
  return {{"max_rel_error", number(accuracy.max_rel_error())},
          {"rel_frobenius", number(accuracy.rel_frobenius())}};
}

Json comparison_json(const Comparison& comparison) {
  return {{"tokens", comparison.tokens},
          {"experts_out", accuracy_json(comparison.experts_out)},
          {"block_out", accuracy_json(comparison.block_out)},
          {"topk_differs", comparison.topk_differs}};
}

Json times_json(const StepReport::Times& times) {
  return {{"plan_ns", times.plan.value},       {"agree_ns", times.agree.value},
          {"pack_ns", times.pack.value},       {"dispatch_ns", times.dispatch.value},
          {"experts_ns", times.experts.value}, {"return_ns", times.give_back.value},
          {"combine_ns", times.combine.value}, {"total_ns", times.total.value}};
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

Json number_or_null(std::optional<double> value) { return value ? number(*value) : Json(); }

}  // namespace

void print_json(const RunOptions& options, const RunResult& result) {
  Json layers = Json::array();
  for (const LayerRun& layer : result.layers) layers.push_back(layer_json(layer));
  Json violations = Json::array();
  for (const Error& violation : result.violations) violations.push_back(to_json(violation));
  write_json({{"model", to_json(result.model)},
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
              {"max_rel_error", number_or_null(result.max_rel_error())},
              {"rel_frobenius", number_or_null(result.rel_frobenius())},
              {"violations", violations}});
}

}  // namespace waybill::cli
