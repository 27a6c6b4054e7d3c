// The way of a routed row between ranks: its class by the nodes of its ends, and its hops where
// rows between nodes go over one relay rank a node. Source: reference text 0x07C, 0x07E.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "waybill/topology.h"

namespace waybill {

enum class RouteClass : std::uint8_t { same_gpu, same_node_remote_gpu, different_node };
std::string_view name(RouteClass route_class);

// `source` and `destination` are ranks of the topology (RankOutsideGroup).
RouteClass classify(const Topology& topology, Rank source, Rank destination);

// The stages of a dispatch over relays. Combine takes them backwards with the ends swapped.
enum class RelayStage : std::uint8_t {
  source_to_source_relay,
  relay_to_relay,
  dest_relay_to_final,
};
std::string_view name(RelayStage stage);

struct Hop {
  RelayStage stage;
  Rank from, to;

  bool operator==(const Hop&) const = default;
};

// One relay for each node, in node order: RelayNotMember when there are fewer or more, or a relay
// isn't a rank of its node.
void check_relays(const Topology& topology, std::span<const Rank> relays);

// The hops of a row between nodes; a stage whose ends are one rank is left out. Empty within a
// node, where rows need no relay. The last hop ends at `destination`.
std::vector<Hop> relay_hops(const Topology& topology, std::span<const Rank> relays, Rank source,
                            Rank destination);

}  // namespace waybill
