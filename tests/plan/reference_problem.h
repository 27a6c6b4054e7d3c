// The reference text's routes over ranks, read from its fixtures' primary inputs.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "waybill/plan.h"

namespace waybill::testing {

using Json = nlohmann::json;

inline Json read_fixture(const std::string& name) {
  std::ifstream file(std::string(WAYBILL_TEST_DATA "/conformance/") + name);
  return Json::parse(file);
}

inline Placement placement_of_manifest(const Json& manifest) {
  std::vector<Slot> slots;
  for (const Json& slot : manifest.at("slots")) {
    slots.push_back({slot.at("id"), ExpertId{slot.at("logical_expert")}, slot.at("replica"),
                     Rank{slot.at("rank")}, slot.at("domain"),
                     CheckpointVersion(slot.at("checkpoint")), slot.at("parameter_digest")});
  }
  return {PlacementVersion(manifest.at("placement_version")), manifest.at("logical_experts"),
          manifest.at("ranks"), std::move(slots)};
}

inline ProcessGroup group_of_peers(const std::vector<std::int32_t>& order) {
  std::vector<Rank> peers;
  for (const std::int32_t rank : order) peers.emplace_back(rank);
  return {ProcessGroupId("ep-group-0"), GroupEpoch{12}, std::move(peers)};
}

// Every rank's routes, plan and receive plan under one peer order.
struct ReferenceProblem {
  Placement placement;
  ProcessGroup group;
  std::vector<std::vector<std::string>> ids{};        // [P][T_l*k] name of each route
  std::vector<std::vector<std::int32_t>> experts{};   // [P][T_l*k]
  std::vector<std::vector<float>> gates{};            // [P][T_l*k]
  std::vector<std::vector<std::int32_t>> assigned{};  // [P][T_l*k]
  std::vector<std::int32_t> tokens{};                 // [P]
  std::int32_t topk = 0;
  std::vector<HostPlan> plans{};        // [P] by rank
  std::vector<ReceivePlan> receives{};  // [P] by rank

  RoutesView routes(std::int32_t rank) const {
    return {tokens[rank], topk, experts[rank], gates[rank]};
  }

  void plan() {
    for (std::int32_t rank = 0; rank < group.size(); ++rank) {
      plans.push_back(build_plan(routes(rank), assigned[rank], placement, group, Rank{rank}));
    }
    for (std::int32_t rank = 0; rank < group.size(); ++rank) {
      std::vector<std::int32_t> counts;
      for (const Rank source : group.peer_order()) {
        const auto sent = plans[source.index()].slot_counts(group.peer_of(Rank{rank}));
        counts.insert(counts.end(), sent.begin(), sent.end());
      }
      const auto slots = static_cast<std::int32_t>(placement.slots_on(Rank{rank}).size());
      receives.push_back(build_receive_plan(counts, slots, group));
    }
  }

  using Names = std::vector<std::string>;

  std::vector<Names> send_order() const {
    std::vector<Names> orders;
    for (std::int32_t rank = 0; rank < group.size(); ++rank) {
      orders.emplace_back();
      for (const std::int32_t route : plans[rank].send_order()) {
        orders.back().push_back(ids[rank][route]);
      }
    }
    return orders;
  }

  // Rows as they arrive. `sources` is the order of the peers' segments.
  Names receive_order(std::int32_t rank, const std::vector<Rank>& sources) const {
    Names rows;
    const std::vector<Names> sent = send_order();
    const std::size_t here = group.peer_of(Rank{rank}).index();
    for (const Rank source : sources) {
      const auto offsets = plans[source.index()].send_offsets();
      rows.insert(rows.end(), sent[source.index()].begin() + offsets[here],
                  sent[source.index()].begin() + offsets[here + 1]);
    }
    return rows;
  }

  Names expert_order(std::int32_t rank) const {
    const auto peers = group.peer_order();
    const Names received = receive_order(rank, {peers.begin(), peers.end()});
    Names rows;
    for (const std::int32_t row : receives[rank].expert_order()) rows.push_back(received[row]);
    return rows;
  }
};

// The eight-route fixture; `reassign` moves routes to other slots by name.
inline ReferenceProblem reference_problem(const std::vector<std::int32_t>& peer_order,
                                          const Json& reassign = Json::object()) {
  const Json fixture = read_fixture("routes.json");
  ReferenceProblem p{.placement = placement_of_manifest(read_fixture("placement_v17.json")),
                     .group = group_of_peers(peer_order)};
  std::map<std::string, std::int32_t> slot_of;
  for (std::int32_t q = 0; q < p.placement.slots(); ++q) {
    slot_of[p.placement.slot(SlotId{q}).name] = q;
  }
  p.topk = fixture.at("shape").at("k");
  p.tokens = fixture.at("shape").at("tokens_per_rank").get<std::vector<std::int32_t>>();
  p.ids.resize(p.tokens.size());
  p.experts.resize(p.tokens.size());
  p.gates.resize(p.tokens.size());
  p.assigned.resize(p.tokens.size());
  for (const Json& route : fixture.at("routes")) {
    const std::int32_t rank = route.at("source_rank");
    const std::string id = route.at("id");
    p.ids[rank].push_back(id);
    p.experts[rank].push_back(route.at("logical_expert"));
    p.gates[rank].push_back(route.at("gate"));
    p.assigned[rank].push_back(slot_of.at(reassign.value(id, route.at("slot"))));
  }
  p.plan();
  return p;
}

}  // namespace waybill::testing
