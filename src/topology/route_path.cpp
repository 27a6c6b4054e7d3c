#include "waybill/route_path.h"

#include <fmt/format.h>

#include <utility>

#include "waybill/error.h"

namespace waybill {
namespace {

void require_rank(const Topology& topology, Rank rank) {
  if (rank.value >= 0 && rank.value < topology.ranks()) return;
  throw Error(Code::RankOutsideGroup)
      .at("rank", rank)
      .expected(fmt::format("a rank in [0, {})", topology.ranks()))
      .found(rank);
}

}  // namespace

std::string_view name(RouteClass route_class) {
  switch (route_class) {
    case RouteClass::same_gpu: return "same_gpu";
    case RouteClass::same_node_remote_gpu: return "same_node_remote_gpu";
    case RouteClass::different_node: return "different_node";
  }
  return "?";
}

std::string_view name(RelayStage stage) {
  switch (stage) {
    case RelayStage::source_to_source_relay: return "source_to_source_relay";
    case RelayStage::relay_to_relay: return "relay_to_relay";
    case RelayStage::dest_relay_to_final: return "dest_relay_to_final";
  }
  return "?";
}

RouteClass classify(const Topology& topology, Rank source, Rank destination) {
  require_rank(topology, source);
  require_rank(topology, destination);
  if (source == destination) return RouteClass::same_gpu;
  return topology.node_of(source) == topology.node_of(destination)
             ? RouteClass::same_node_remote_gpu
             : RouteClass::different_node;
}

void check_relays(const Topology& topology, std::span<const Rank> relays) {
  if (std::cmp_not_equal(relays.size(), topology.nodes())) {
    throw Error(Code::RelayNotMember)
        .expected(fmt::format("a relay for each of {} nodes", topology.nodes()))
        .found(relays.size());
  }
  for (std::int32_t n = 0; n < topology.nodes(); ++n) {
    const Rank relay = relays[static_cast<std::size_t>(n)];
    const NodeId node{n};
    if (relay.value >= 0 && relay.value < topology.ranks() && topology.node_of(relay) == node) {
      continue;
    }
    throw Error(Code::RelayNotMember)
        .at("node", topology.node_name(node))
        .expected("a rank of the node")
        .found(relay);
  }
}

std::vector<Hop> relay_hops(const Topology& topology, std::span<const Rank> relays, Rank source,
                            Rank destination) {
  check_relays(topology, relays);
  std::vector<Hop> hops;
  if (classify(topology, source, destination) != RouteClass::different_node) return hops;
  const Rank near = relays[topology.node_of(source).index()];
  const Rank far = relays[topology.node_of(destination).index()];
  if (source != near) hops.push_back({RelayStage::source_to_source_relay, source, near});
  hops.push_back({RelayStage::relay_to_relay, near, far});
  if (far != destination) hops.push_back({RelayStage::dest_relay_to_final, far, destination});
  return hops;
}

}  // namespace waybill
