#include "waybill/ledger.h"

#include <algorithm>

#include "plan/checked_bytes.h"
#include "waybill/error.h"

namespace waybill {

RowLedger row_ledger(std::span<const HostPlan* const> plans, const ProcessGroup& group) {
  if (static_cast<std::int64_t>(plans.size()) != group.size()) {
    throw Error(Code::RankCountMismatch)
        .at("group", group.id())
        .expected(group.size())
        .found(plans.size());
  }
  RowLedger ledger;
  std::int64_t largest_split = 0;
  for (std::int32_t origin = 0; origin < group.size(); ++origin) {
    const HostPlan& plan = *plans[origin];
    if (plan.peers() != group.size()) {
      throw Error(Code::GroupShapeMismatch)
          .at("rank", group.rank_of(PeerSlot{origin}))
          .expected(group.size())
          .found(plan.peers());
    }
    ledger.tokens += Rows{plan.tokens()};
    ledger.routes += Rows{plan.rows()};
    ledger.dropped += Rows{static_cast<std::int64_t>(plan.slot().size()) - plan.rows()};
    for (std::int32_t peer = 0; peer < group.size(); ++peer) {
      const std::int64_t rows = plan.send_count(PeerSlot{peer});
      const std::int64_t payload = plan.payload_count(PeerSlot{peer});
      largest_split = std::max(largest_split, rows);
      ledger.payload += Rows{payload};
      if (peer == origin) {
        ledger.local += Rows{rows};
      } else {
        ledger.remote += Rows{rows};
        ledger.remote_payload += Rows{payload};
      }
    }
  }
  ledger.padded = Rows{checked_bytes("padded rows", {group.size(), group.size(), largest_split})};
  return ledger;
}

ByteLedger byte_ledger(const RowLedger& rows, const Representation& r, std::int64_t ranks,
                       std::int64_t local_expert_offset_entries) {
  const auto bytes = [](std::string_view figure, std::initializer_list<std::int64_t> factors) {
    return LogicalBytes{checked_bytes(figure, factors)};
  };
  const Rows wire_payload = r.local_bypass ? rows.remote_payload : rows.payload;
  const Rows wire_routes = r.local_bypass ? rows.remote : rows.routes;
  ByteLedger b;
  b.stage_dispatch = bytes("stage dispatch", {rows.payload.value, r.hidden, r.activation_bytes});
  b.stage_combine = bytes("stage combine", {rows.routes.value, r.hidden, r.output_bytes});
  b.remote_dispatch = bytes("remote dispatch", {wire_payload.value, r.hidden, r.activation_bytes});
  b.remote_combine = bytes("remote combine", {wire_routes.value, r.hidden, r.output_bytes});
  b.dispatch_metadata =
      bytes("dispatch metadata", {wire_routes.value, r.dispatch_fields, r.metadata_bytes});
  b.combine_metadata =
      bytes("combine metadata", {wire_routes.value, r.combine_fields, r.metadata_bytes});
  b.route_handle = bytes("route handle", {rows.routes.value, r.handle_fields, r.metadata_bytes});
  b.count_matrix = bytes("count matrix", {ranks, ranks, r.coordinate_bytes});
  b.send_offsets = bytes("send offsets", {ranks, ranks + 1, r.coordinate_bytes});
  b.recv_splits = b.count_matrix;
  b.local_expert_offsets =
      bytes("local expert offsets", {local_expert_offset_entries, r.coordinate_bytes});
  b.remote_logical = LogicalBytes{
      checked_sum("remote logical", {b.remote_dispatch.value, b.remote_combine.value,
                                     b.dispatch_metadata.value, b.combine_metadata.value})};
  b.padded_dispatch = bytes("padded dispatch", {rows.padded.value, r.hidden, r.activation_bytes});
  b.padded_combine = bytes("padded combine", {rows.padded.value, r.hidden, r.output_bytes});
  return b;
}

}  // namespace waybill
