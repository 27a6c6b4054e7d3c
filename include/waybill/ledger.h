// What a step moves and holds, by kind of evidence. Rows, logical bytes and live bytes follow from
// shapes; measured bytes and time come only from counters and clocks and are other types.
// Source: reference text 0x03D.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
};

// Rows of a whole group for one layer.
struct RowLedger {
  Rows tokens;
  Rows routes;  // accepted
  Rows dropped;
  Rows local;  // destination rank == origin rank
  Rows remote;
  Rows payload;         // rows that dispatch sends (== routes without dedup)
  Rows remote_payload;  // … to another rank
  Rows padded;          // P^2 * largest split: what a uniform padded exchange would reserve
};

struct ByteLedger {
  LogicalBytes stage_dispatch, stage_combine;    // all useful rows
  LogicalBytes remote_dispatch, remote_combine;  // payload between different ranks
  LogicalBytes dispatch_metadata, combine_metadata;
  LogicalBytes route_handle;
  LogicalBytes count_matrix, send_offsets, recv_splits, local_expert_offsets;
  LogicalBytes remote_logical;  // remote payload + remote metadata, protocol excluded
};

// From the plans of all ranks of a group, in peer order.
RowLedger row_ledger(std::span<const HostPlan* const> plans, const ProcessGroup& group);
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
  std::int64_t peak_epoch = 0;
  std::vector<std::string> peak_members;
  std::vector<LiveBytes> by_epoch;
};

// Live bytes per epoch. Throws AliasOverlap (both buffers named), EarlyRelease (release before
// alloc, or before the epoch of the event it needs), MissingDependency (an unknown event),
// CyclicEventGraph, EpochBeforeDependency.
LiveLedger live_ledger(std::span<const Buffer> buffers, std::span<const PhaseEvent> events = {});

// The fourteen buffers and eight events of one forward step (0x03D3, 0x03D4).
std::vector<Buffer> step_buffers(const RowLedger& rows, const ByteLedger& bytes,
                                 const Representation& representation);
std::vector<PhaseEvent> step_events();

}  // namespace waybill
