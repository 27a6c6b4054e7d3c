#include "waybill/ledger.h"

#include <algorithm>
#include <iterator>

#include "plan/checked_bytes.h"
#include "waybill/error.h"

namespace waybill {

Representation Representation::of(std::int64_t hidden, DType dtype) {
  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
  Representation representation;
  representation.hidden = hidden;
  representation.activation_bytes = representation.output_bytes = bytes;
  return representation;
}

RankRows rank_rows(const HostPlan& plan) {
  RankRows rows;
  rows.tokens = Rows{plan.tokens()};
  rows.routes = Rows{plan.rows()};
  rows.dropped = Rows{static_cast<std::int64_t>(plan.slot().size()) - plan.rows()};
  for (std::int32_t peer = 0; peer < plan.peers(); ++peer) {
    rows.sent.emplace_back(plan.send_count(PeerSlot{peer}));
    rows.payload.emplace_back(plan.payload_count(PeerSlot{peer}));
  }
  return rows;
}

RowLedger row_ledger(std::span<const RankRows> ranks, const ProcessGroup& group) {
  if (std::ssize(ranks) != group.size()) {
    throw Error(Code::RankCountMismatch)
        .at("group", group.id())
        .expected(group.size())
        .found(ranks.size());
  }
  RowLedger ledger;
  std::int64_t largest_split = 0;
  for (std::size_t origin = 0; origin < ranks.size(); ++origin) {
    const RankRows& rank = ranks[origin];
    if (std::ssize(rank.sent) != group.size() || std::ssize(rank.payload) != group.size()) {
      throw Error(Code::GroupShapeMismatch)
          .at("rank", group.rank_of(PeerSlot{static_cast<std::int32_t>(origin)}))
          .expected(group.size())
          .found(rank.sent.size());
    }
    ledger.tokens += rank.tokens;
    ledger.routes += rank.routes;
    ledger.dropped += rank.dropped;
    for (std::size_t peer = 0; peer < ranks.size(); ++peer) {
      largest_split = std::max(largest_split, rank.sent[peer].value);
      ledger.payload += rank.payload[peer];
      if (peer == origin) {
        ledger.local += rank.sent[peer];
      } else {
        ledger.remote += rank.sent[peer];
        ledger.remote_payload += rank.payload[peer];
      }
    }
  }
  ledger.padded = Rows{checked_bytes("padded rows", {group.size(), group.size(), largest_split})};
  return ledger;
}

RowLedger row_ledger(std::span<const HostPlan* const> plans, const ProcessGroup& group) {
  std::vector<RankRows> ranks;
  for (const HostPlan* plan : plans) ranks.push_back(rank_rows(*plan));
  return row_ledger(ranks, group);
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
