// One route's way out and back, and its two printed forms.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "plan_result.h"
#include "text.h"
#include "waybill/error.h"

namespace waybill::cli {
namespace {

std::int64_t parse_route(std::string_view text, std::int64_t routes) {
  const std::string_view digits = text.substr(text.starts_with('r') ? 1 : 0);
  std::int64_t route = -1;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), route);
  const bool number = fault == std::errc{} && end == digits.data() + digits.size();
  if (!number || route < 0 || route >= routes) {
    throw Error(Code::InvalidValue)
        .at("option", "--route")
        .expected(fmt::format("r0 to r{}", routes - 1))
        .found(text);
  }
  return route;
}

}  // namespace

Journey trace(const PlannedLayer& layer, const Layout& layout, std::int32_t topk,
              const std::string& route) {
  Journey journey;
  journey.route = parse_route(route, layer.first_token.back() * topk);
  journey.token = journey.route / topk;
  const auto after = std::ranges::upper_bound(layer.first_token, journey.token);
  const auto origin = static_cast<std::size_t>(after - layer.first_token.begin() - 1);
  journey.origin = Rank{static_cast<std::int32_t>(origin)};
  journey.origin_node = layout.topology.node_of(journey.origin);

  const RoutesView routes = layer.routes[origin].view();
  const HostPlan& plan = layer.plans[origin];
  const RouteId local{static_cast<std::int32_t>(journey.route - layer.first_token[origin] * topk)};
  journey.token_row = routes.token(local);
  journey.route_slot = routes.slot(local);
  journey.expert = routes.expert(local);
  journey.gate = routes.gates[local.index()];
  journey.dropped = routes.dropped(local);
  if (journey.dropped) return journey;

  const Placement& placement = layout.generation.layer(layer.layer);
  journey.slot = SlotId{plan.slot()[local.index()]};
  journey.slot_name = placement.slot(journey.slot).name;
  journey.replica = placement.slot(journey.slot).replica;
  journey.local_slot = placement.local_index(journey.slot);
  journey.destination = placement.rank_of(journey.slot);
  journey.destination_node = layout.topology.node_of(journey.destination);
  journey.destination_peer = layout.group.peer_of(journey.destination);
  journey.origin_peer = layout.group.peer_of(journey.origin);
  journey.send_position = plan.send_position()[local.index()];
  const ReceivePlan& receive = layer.receives[journey.destination.index()];
  journey.receive_position = receive.recv_offsets()[journey.origin_peer.index()] +
                             journey.send_position -
                             plan.send_offsets()[journey.destination_peer.index()];
  journey.expert_row =
      receive.expert_position()[static_cast<std::size_t>(journey.receive_position)];
  return journey;
}

void print_text(const PlannedLayer& layer, const Journey& j) {
  std::string text;
  text += field("route", fmt::format("r{:02} of layer {}", j.route, layer.layer.value));
  text += field("origin", fmt::format("rank {} (node {}), token {} = its row {}, route slot {}",
                                      j.origin.value, j.origin_node.value, j.token,
                                      j.token_row.value, j.route_slot.value));
  text += field("wants", fmt::format("expert {}, gate {}", j.expert.value, j.gate));
  if (j.dropped) {
    write_text(text + field("dropped", "by admission; never sent, contributes nothing"));
    return;
  }
  text +=
      field("runs on", fmt::format("slot {} ({}), replica {}, local slot {} of rank {} (node {})",
                                   j.slot.value, printable(j.slot_name), printable(j.replica),
                                   j.local_slot, j.destination.value, j.destination_node.value));
  text += field("sent", fmt::format("row {} of rank {}'s send buffer, to peer slot {}",
                                    j.send_position, j.origin.value, j.destination_peer.value));
  text +=
      field("received", fmt::format("row {} of rank {}'s receive buffer, from peer slot {}",
                                    j.receive_position, j.destination.value, j.origin_peer.value));
  text += field("executed",
                fmt::format("expert row {}, after the repack to expert-major order", j.expert_row));
  text += field("returned",
                fmt::format("from row {} to row {}, added to token {} as term {}",
                            j.receive_position, j.send_position, j.token, j.route_slot.value));
  write_text(text);
}

void print_json(const PlannedLayer& layer, const Journey& j) {
  nlohmann::ordered_json json = {{"layer", layer.layer.value},
                                 {"route", j.route},
                                 {"origin_rank", j.origin.value},
                                 {"origin_node", j.origin_node.value},
                                 {"token", j.token},
                                 {"token_row", j.token_row.value},
                                 {"route_slot", j.route_slot.value},
                                 {"expert", j.expert.value},
                                 {"gate", j.gate},
                                 {"dropped", j.dropped}};
  if (!j.dropped) {
    json.update(nlohmann::ordered_json{{"slot", j.slot.value},
                                       {"slot_name", j.slot_name},
                                       {"replica", j.replica},
                                       {"local_slot", j.local_slot},
                                       {"destination_rank", j.destination.value},
                                       {"destination_node", j.destination_node.value},
                                       {"destination_peer_slot", j.destination_peer.value},
                                       {"origin_peer_slot", j.origin_peer.value},
                                       {"send_position", j.send_position},
                                       {"receive_position", j.receive_position},
                                       {"expert_row", j.expert_row},
                                       {"return_position", j.send_position}});
  }
  write_json({{"journey", json}});
}

}  // namespace waybill::cli
