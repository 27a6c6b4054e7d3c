// The buffers and events of one forward step, with the epochs of reference text 0x03D3 and 0x03D4.
#include "plan/checked_bytes.h"
#include "waybill/ledger.h"

namespace waybill {

std::vector<Buffer> step_buffers(const RowLedger& rows, const ByteLedger& bytes,
                                 const Representation& r) {
  const auto live = [](LogicalBytes b) { return LiveBytes{b.value}; };
  const auto product = [](std::string_view figure, std::initializer_list<std::int64_t> factors) {
    return LiveBytes{checked_bytes(figure, factors)};
  };
  const std::int64_t tokens = rows.tokens.value, routes = rows.routes.value;
  const LiveBytes input = product("input hidden", {tokens, r.hidden, r.activation_bytes});
  const LiveBytes output = product("output hidden", {tokens, r.hidden, r.output_bytes});
  const LiveBytes expert_input =
      product("local expert input", {routes, r.hidden, r.activation_bytes});
  const LiveBytes send_metadata =
      product("send metadata", {routes, r.dispatch_fields, r.metadata_bytes});
  const LiveBytes return_metadata =
      product("return metadata", {routes, r.combine_fields, r.metadata_bytes});
  const LiveBytes payload = live(bytes.stage_dispatch), returned = live(bytes.stage_combine);
  return {
      {"input hidden", input, 0, 9, "handle_released", ""},
      {"immutable route handle", live(bytes.route_handle), 0, 9, "handle_released", ""},
      {"count matrix", live(bytes.count_matrix), 1, 7, "combine_complete", ""},
      {"send offsets", live(bytes.send_offsets), 1, 7, "combine_complete", ""},
      {"receive splits", live(bytes.recv_splits), 1, 7, "combine_complete", ""},
      {"packed send payload", payload, 1, 3, "dispatch_complete", ""},
      {"send metadata", send_metadata, 1, 3, "dispatch_complete", ""},
      {"source-major receive", payload, 2, 4, "expert_input_ready", ""},
      {"local expert offsets", live(bytes.local_expert_offsets), 3, 5, "expert_complete", ""},
      {"local expert input", expert_input, 3, 5, "expert_complete", ""},
      {"expert output / return payload", returned, 4, 7, "combine_complete",
       "expert_output_return_payload"},
      {"return metadata", return_metadata, 4, 7, "combine_complete", ""},
      {"returned source-order rows", returned, 6, 8, "output_ready", ""},
      {"output hidden", output, 7, 10, std::string(downstream_consumer), ""},
  };
}

std::vector<PhaseEvent> step_events() {
  return {
      {"route_ready", "route", {}, 1},
      {"dispatch_packed", "pack", {"route_ready"}, 2},
      {"dispatch_complete", "communication", {"dispatch_packed"}, 3},
      {"expert_input_ready", "expert", {"dispatch_complete"}, 4},
      {"expert_complete", "expert", {"expert_input_ready"}, 5},
      {"combine_complete", "communication", {"expert_complete"}, 7},
      {"output_ready", "output", {"combine_complete"}, 8},
      {"handle_released", "output", {"output_ready"}, 9},
  };
}

}  // namespace waybill
