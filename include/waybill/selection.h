// Which replica runs a route: counts → (global counts where the policy needs them) → a table. The
// plan takes the table as input and is pure. Source: reference text 0x02B, 0x01D1.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "waybill/hash.h"
#include "waybill/placement.h"
#include "waybill/routes.h"
#include "waybill/topology.h"

namespace waybill {

enum class Selector : std::uint8_t {
  first,        // the first replica in manifest order
  round_robin,  // replicas in turn over all routes of the expert in global semantic order
  least_load,   // divides each replicated expert's rows so that the fullest rank stays lowest
  locality,     // same rank, else same node, else any; in turn within that class
  hash,         // by a hash of (origin rank, token, route slot)
};
std::string_view name(Selector selector);
bool find_selector(std::string_view name, Selector& selector);
// True when the policy reads every rank's counts, so that they are exchanged first.
bool needs_global_counts(Selector selector);

enum class SelectionScope : std::uint8_t {
  source_local,    // each rank may hold another table
  rank_invariant,  // all ranks hold tables of one global division
};

// How a route of expert e finds its slot. `ordinal` is the route's position among the routes of e
// on this rank (dropped ones not counted) plus ordinal_base[e].
enum class SelectionRule : std::uint8_t {
  cyclic,  // candidates[ordinal mod m]
  quota,   // the first candidate whose quota_end exceeds the ordinal
  hashed,  // candidates[route_hash(origin, token, slot) mod m]
};

struct SelectionTable {
  SelectionScope scope = SelectionScope::source_local;
  SelectionRule rule = SelectionRule::cyclic;
  std::vector<std::int32_t> offsets;       // [E+1] into candidates
  std::vector<SlotId> candidates;          // slots of each expert
  std::vector<std::int64_t> quota_end;     // parallel to candidates (quota only): exclusive ends
  std::vector<std::int64_t> ordinal_base;  // [E]
};

// 64-bit mix of a route's identity; the same on every device.
constexpr std::uint64_t route_hash(Rank origin, TokenRow token, RouteSlot slot) {
  return splitmix64((static_cast<std::uint64_t>(static_cast<std::uint32_t>(origin.value)) << 40) ^
                    (static_cast<std::uint64_t>(static_cast<std::uint32_t>(token.value)) << 8) ^
                    static_cast<std::uint64_t>(static_cast<std::uint32_t>(slot.value)));
}

// Accepted routes per logical expert: [E]. ExpertIdOutOfRange, with token and route slot.
std::vector<std::int64_t> count_experts(const RoutesView& routes, std::int32_t experts);

// `counts` is [1, E] (this rank only) or, when needs_global_counts(), [P, E] in global rank order.
// ShapeMismatch for counts of another size, InvalidValue for a negative count or an unknown source,
// RankCountMismatch for a topology of fewer ranks than the placement's.
SelectionTable select(Selector selector, const Placement& placement, const Topology& topology,
                      Rank source, std::span<const std::int64_t> counts);

}  // namespace waybill
