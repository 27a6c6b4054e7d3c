// What a step moves and holds, by kind of evidence. Rows, logical bytes and live bytes follow from
// shapes; measured bytes and time come only from counters and clocks and are other types.
// Source: reference text 0x03D.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/dtype.h"
#include "waybill/plan.h"

namespace waybill {

// A count with its kind of evidence in the type; kinds don't mix.
template <class Tag>
struct Quantity {
  std::int64_t value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t v) : value(v) {}
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator+(Quantity other) const { return Quantity{value + other.value}; }
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
};
using Rows = Quantity<struct RowsTag>;
using LogicalBytes = Quantity<struct LogicalBytesTag>;    // follow from declared shapes and dtypes
using LiveBytes = Quantity<struct LiveBytesTag>;          // declared buffers that coexist
using MeasuredBytes = Quantity<struct MeasuredBytesTag>;  // from counters
using Nanoseconds = Quantity<struct NanosecondsTag>;      // from a clock

// The declared representation of a step (0x03D2); widths in bytes.
struct Representation {
  std::int64_t hidden = 0;            // d
  std::int64_t activation_bytes = 2;  // b_a
  std::int64_t output_bytes = 2;      // b_o
  std::int64_t coordinate_bytes = 8;  // counts, offsets, splits
  std::int64_t metadata_bytes = 4;
  std::int64_t dispatch_fields = 2;  // metadata fields per dispatched row
  std::int64_t combine_fields = 1;   // … per returned row
  std::int64_t handle_fields = 8;    // … per route in the origin handle
  bool local_bypass = true;          // local rows do not cross the transport

  // Rows of one dtype there and back.
  static Representation of(std::int64_t hidden, DType dtype);
};

// What one rank's plan, or the report of its step, counts.
struct RankRows {
  Rows tokens;
  Rows routes;  // accepted
  Rows dropped;
  std::vector<Rows> sent;     // [P] route rows by peer slot
  std::vector<Rows> payload;  // [P] rows that dispatch sends
};
RankRows rank_rows(const HostPlan& plan);

// Rows of a whole group for one layer.
struct RowLedger {
  Rows tokens;
  Rows routes;  // accepted
  Rows dropped;
  Rows local;  // destination rank == origin rank
  Rows remote;
  Rows payload;         // rows that dispatch sends (== routes without dedup)
  Rows remote_payload;  // … to another rank
  Rows padded;          // P^2 * largest split of routes: what a uniform padded exchange reserves
};

// Under dedup dispatch moves payload rows, combine one row a route; metadata stays one entry a
// route.
struct ByteLedger {
  LogicalBytes stage_dispatch, stage_combine;    // all useful rows
  LogicalBytes remote_dispatch, remote_combine;  // rows that cross the transport
  LogicalBytes dispatch_metadata, combine_metadata;
  LogicalBytes route_handle;
  LogicalBytes count_matrix, send_offsets, recv_splits, local_expert_offsets;
  LogicalBytes remote_logical;  // remote payload + remote metadata, protocol excluded
  LogicalBytes padded_dispatch, padded_combine;  // what a uniform padded exchange reserves
};

// From all ranks of a group, in peer order. RankCountMismatch when there isn't one a peer,
// GroupShapeMismatch when one has another peer count.
RowLedger row_ledger(std::span<const RankRows> ranks, const ProcessGroup& group);
RowLedger row_ledger(std::span<const HostPlan* const> plans, const ProcessGroup& group);
// `local_expert_offset_entries` is Q + P: each rank holds its local slots and the final sentinel.
// InvalidValue when a factor is negative or a figure exceeds 2^63-1 bytes.
ByteLedger byte_ledger(const RowLedger& rows, const Representation& representation,
                       std::int64_t ranks, std::int64_t local_expert_offset_entries);

// A named allocation that is live on the half-open interval [alloc, release).
struct Buffer {
  std::string name;
  LiveBytes bytes;
  std::int64_t alloc = 0;
  std::int64_t release = 0;
  std::string release_needs;  // the event whose completion the last reader waits for; may be empty
  std::string alias_group;    // members never live together; empty: none
};

// A point of the dependency graph; `after` names its predecessors.
struct PhaseEvent {
  std::string name;
  std::string stream;
  std::vector<std::string> after;
  std::int64_t epoch = 0;
};

struct LiveLedger {
  LiveBytes sum;
  LiveBytes peak;
  std::int64_t peak_epoch = 0;            // the first that reaches the peak
  std::vector<std::string> peak_members;  // in the order of the buffers
  std::vector<LiveBytes> by_epoch;        // [0, last release]
};

// What a buffer needs that the step hands to its caller: the caller's last read, after every event
// of the step.
inline constexpr std::string_view downstream_consumer = "downstream_consumer";

// Checks a dependency graph: InvalidValue (an event stands twice), MissingDependency (a predecessor
// that isn't in it, or an edge of step_events() between two of its events that no path gives),
// CyclicEventGraph, EpochBeforeDependency (an event that isn't later than a predecessor).
void check_events(std::span<const PhaseEvent> events);

// Live bytes per epoch. Checks `events` as check_events() does, then the buffers: InvalidValue (a
// negative size or epoch, an epoch over 2^20, a sum over 2^63-1), MissingDependency (an event it
// needs is unknown), EarlyRelease (release before alloc, or before the epoch of the event it
// needs), AliasOverlap (two members of a group live together; both named). Without events no need
// is checked.
LiveLedger live_ledger(std::span<const Buffer> buffers, std::span<const PhaseEvent> events = {});

// The fourteen buffers and eight events of one forward step (0x03D3, 0x03D4).
std::vector<Buffer> step_buffers(const RowLedger& rows, const ByteLedger& bytes,
                                 const Representation& representation);
std::vector<PhaseEvent> step_events();

}  // namespace waybill
