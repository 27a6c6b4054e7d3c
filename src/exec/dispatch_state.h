// What a handle carries from begin() to the release: the pins, the way there and the way back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/resident_experts.h"
#include "exec/wire_order.h"
#include "waybill/column.h"
#include "waybill/layer.h"

namespace waybill {

enum class Phase : std::uint8_t {
  routed,
  planned,
  in_flight,
  received,
  computed,
  combining,
  returned,
  released,
};
std::string_view name(Phase phase);

// A submitted exchange and the offsets that it reads.
struct RowExchange {
  std::vector<std::int64_t> send_offsets, recv_offsets;  // [P+1] bytes
  Completion completion;
};

// What an exchange reads or writes: rows in wire order, and the first row of each peer [P+1].
struct PeerRows {
  std::span<const std::int32_t> offsets;
  void* rows = nullptr;
};

// First dispatched row of each peer [P+1].
inline std::span<const std::int32_t> payload_offsets(const HostPlan& plan) {
  return plan.dedup() ? plan.payload_offsets() : plan.send_offsets();
}

// Columns that a later step of the layer reuses. "Wire rows" are rows in wire order.
struct StepColumns {
  HostPlan plan;
  ReceivePlan receive;
  Column admitted_ids;               // [T*k] in place of ids of which some were dropped
  Column counts_out, counts_in;      // count messages in peer order
  Column peer_counts;                // [P, Q_local] rows that each peer sends to each local slot
  Column payload_offsets;            // [P+1] first received payload row of each peer
  Column gather, scatter;            // [received rows] wire row in `input` and in `output`
  Column fields_out, fields_in;      // fields beside each dispatched wire row
  Column executed_out, executed_in;  // (route, slot) beside each returned wire row
  std::vector<RouteIdentity> identities;      // of the received rows, under full checks
  std::vector<std::size_t> identities_order;  // what their check sorts
};

// Pieces of the layer's workspace.
struct StepBuffers {
  std::byte* remote = nullptr;  // payload rows on their way out, then expert rows come home
  std::byte* input = nullptr;   // received payload wire rows
  std::byte* output = nullptr;  // expert output wire rows
};

struct DispatchState {
  DispatchState() = default;
  DispatchState(const DispatchState&) = delete;
  DispatchState& operator=(const DispatchState&) = delete;
  ~DispatchState() { abandon(); }

  const void* layer = nullptr;   // the layer that made it
  Communicator* comm = nullptr;  // the layer's
  Phase phase = Phase::routed;

  Lease lease;
  PlacementVersion placement;
  GroupEpoch group_epoch;
  std::shared_ptr<const ResidentExperts> experts;
  RoutesView routes;
  std::optional<Error> routes_fault;  // what their columns lack; plan() tells every rank
  std::int64_t bad_ids = 0;           // dropped by BadIdPolicy::drop
  std::string semantic_digest;        // empty below Checks::full

  StepColumns columns;
  StepBuffers buffers;
  WireOrder sent, sent_payload, received, received_payload;
  RowExchange payload, fields, results, executed;
  Event experts_done;
  StepReport report;

  // Gives up what is under way and tells the peers; the lease is released. Nothing once the step is
  // released.
  void abandon();
};

}  // namespace waybill
