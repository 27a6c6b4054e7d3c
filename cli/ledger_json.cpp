#include "ledger_json.h"

namespace waybill::cli {

using Json = nlohmann::ordered_json;

Json to_json(const RowLedger& rows) {
  return {{"tokens", rows.tokens.value},
          {"routes", rows.routes.value},
          {"dropped", rows.dropped.value},
          {"local", rows.local.value},
          {"remote", rows.remote.value},
          {"payload", rows.payload.value},
          {"remote_payload", rows.remote_payload.value},
          {"padded", rows.padded.value}};
}

Json to_json(const ByteLedger& bytes) {
  return {{"stage_dispatch", bytes.stage_dispatch.value},
          {"stage_combine", bytes.stage_combine.value},
          {"remote_dispatch", bytes.remote_dispatch.value},
          {"remote_combine", bytes.remote_combine.value},
          {"dispatch_metadata", bytes.dispatch_metadata.value},
          {"combine_metadata", bytes.combine_metadata.value},
          {"route_handle", bytes.route_handle.value},
          {"count_matrix", bytes.count_matrix.value},
          {"send_offsets", bytes.send_offsets.value},
          {"recv_splits", bytes.recv_splits.value},
          {"local_expert_offsets", bytes.local_expert_offsets.value},
          {"remote_logical", bytes.remote_logical.value}};
}

Json to_json(const LiveLedger& live) {
  return {{"peak", live.peak.value},
          {"peak_epoch", live.peak_epoch},
          {"peak_members", live.peak_members},
          {"sum", live.sum.value}};
}

Json to_json(const ModelConfig& model) {
  Json layers = Json::array();
  for (LayerId layer : model.moe_layers) layers.push_back(layer.value);
  return {{"family", model.family}, {"layers", model.layers},      {"moe_layers", layers},
          {"hidden", model.hidden}, {"experts", model.experts},    {"topk", model.topk},
          {"ff", model.ff},         {"shared_ff", model.shared_ff}};
}

Json to_json(const StepOptions& options) {
  return {{"checkpoint", options.checkpoint},
          {"tokens", options.tokens},
          {"seed", options.seed},
          {"dtype", options.dtype},
          {"ranks", options.ranks},
          {"nodes", options.nodes},
          {"selector", options.selector},
          {"dedup", options.dedup},
          {"runner", options.runner},
          {"exchange", options.exchange},
          {"transport", options.transport},
          {"device", options.device},
          {"checks", options.checks}};
}

}  // namespace waybill::cli
