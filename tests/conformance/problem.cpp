#include "conformance/problem.h"

#include <algorithm>
#include <utility>

#include "waybill/error.h"

namespace waybill::conformance {
namespace {

void read_hidden(const Value& root, Problem& problem) {
  for (const Value& row : root.at("hidden").elements()) {
    const std::int32_t rank = row.at("rank").id();
    if (rank < 0 || rank >= problem.ranks()) throw row.error(Code::RankOutsideGroup).found(rank);
    const auto values = row.at("row").elements();
    const auto width = static_cast<std::int32_t>(values.size());
    if (problem.width == 0) problem.width = width;
    if (width != problem.width) {
      throw row.at("row").error(Code::ShapeMismatch).expected(problem.width).found(width);
    }
    Origin& origin = problem.origins[static_cast<std::size_t>(rank)];
    if (row.at("token").integer() != origin.tokens) {
      throw row.error(Code::RouteIdentityCollision)
          .expected(origin.tokens)
          .found(row.at("token").integer());
    }
    ++origin.tokens;
    for (const Value& value : values) origin.hidden.push_back(static_cast<float>(value.number()));
  }
}

std::vector<RouteRow> read_routes(const Value& root) {
  std::vector<RouteRow> rows;
  for (const Value& route : root.at("routes").elements()) rows.push_back(read_route(route));
  if (const auto dropped = root.find("dropped_routes")) {
    for (const Value& route : dropped->elements()) {
      if (route.json().is_object()) rows.push_back(read_route(route));
    }
  }
  return rows;
}

void read_choices(const Value& root, const Manifest& manifest, Problem& problem) {
  for (const Value& route : root.at("routes").elements()) {
    const RouteRow row = read_route(route);
    if (row.expert == dropped_route) continue;
    Origin& origin = problem.origins[static_cast<std::size_t>(row.rank)];
    const auto place = static_cast<std::size_t>(row.token * problem.topk + row.slot);
    origin.gates[place] = static_cast<float>(route.at("gate_hundredths").integer(-1'000'000));
    const std::string name = route.at("slot").text();
    const Slot* slot = manifest.slot(name);
    if (slot == nullptr) {
      throw route.at("slot").error(Code::SlotOutsideReplicaSet).expected("a slot").found(name);
    }
    origin.assigned[place] = static_cast<std::int32_t>(slot - manifest.slots.data());
  }
}

}  // namespace

const Slot* Manifest::slot(std::string_view name) const {
  const auto found =
      std::find_if(slots.begin(), slots.end(), [&](const Slot& slot) { return slot.name == name; });
  return found == slots.end() ? nullptr : &*found;
}

Manifest read_manifest(const Value& root) {
  Manifest manifest;
  manifest.version = PlacementVersion(root.at("placement_version").text());
  manifest.generation = root.at("generation").integer();
  manifest.checkpoint = CheckpointVersion(root.at("checkpoint_version").text());
  manifest.group = ProcessGroupId(root.at("process_group_id").text());
  manifest.experts = root.at("logical_experts").id();
  manifest.ranks = root.at("ranks").id();
  for (const Value& slot : root.at("slots").elements()) {
    manifest.slots.push_back(
        {slot.at("id").text(), ExpertId{slot.at("logical_expert").id()}, slot.at("replica").text(),
         Rank{slot.at("rank").id()}, slot.at("domain").text(),
         CheckpointVersion(slot.at("checkpoint").text()), slot.at("parameter_digest").text()});
  }
  return manifest;
}

Topology read_domains(const Value& domains) {
  std::size_t ranks = 0;
  for (const auto& [node, members] : domains.members()) ranks += members.elements().size();
  std::vector<NodeId> node_of(ranks, NodeId{-1});
  std::vector<std::string> names;
  for (const auto& [node, members] : domains.members()) {
    for (const Value& member : members.elements()) {
      const std::int32_t rank = member.id();
      if (rank < 0 || static_cast<std::size_t>(rank) >= ranks || node_of[rank].value >= 0) {
        throw member.error(Code::DomainNotPartition).expected("each rank in one node").found(rank);
      }
      node_of[rank] = NodeId{static_cast<std::int32_t>(names.size())};
    }
    names.push_back(node);
  }
  return Topology::of(std::move(node_of), std::move(names));
}

ProcessGroup process_group(const std::string& id, const std::vector<std::int32_t>& order,
                           std::uint64_t epoch) {
  std::vector<Rank> peers;
  for (const std::int32_t rank : order) peers.emplace_back(rank);
  return {ProcessGroupId(id), GroupEpoch{epoch}, std::move(peers)};
}

void Problem::assign(const std::string& route, std::int32_t slot) {
  for (Origin& origin : origins) {
    const auto found = std::find(origin.ids.begin(), origin.ids.end(), route);
    if (found != origin.ids.end() && !route.empty()) {
      origin.assigned[static_cast<std::size_t>(found - origin.ids.begin())] = slot;
      return;
    }
  }
  throw Error(Code::RouteConservationMismatch).at("route", route).expected("a known route");
}

std::int64_t Problem::accepted() const {
  std::int64_t count = 0;
  for (const Origin& origin : origins) {
    count += static_cast<std::int64_t>(origin.experts.size()) -
             std::count(origin.experts.begin(), origin.experts.end(), dropped_route);
  }
  return count;
}

RouteRow read_route(const Value& route) {
  return {route.at("id").text(), route.at("source_rank").id(), route.at("token").id(),
          route.at("route_slot").id(), route.at("logical_expert").id()};
}

void place_routes(Problem& problem, const std::vector<RouteRow>& rows,
                  const std::vector<std::int32_t>& tokens_per_rank, std::int32_t topk) {
  problem.topk = topk;
  problem.origins.resize(tokens_per_rank.size());
  std::size_t placed = 0, places = 0;
  for (std::size_t rank = 0; rank < tokens_per_rank.size(); ++rank) {
    Origin& origin = problem.origins[rank];
    origin.tokens = tokens_per_rank[rank];
    if (origin.tokens < 0) throw Error(Code::RouteCountMismatch).at("rank", rank).found("-1");
    const auto size = static_cast<std::size_t>(origin.tokens) * static_cast<std::size_t>(topk);
    places += size;
    if (places > rows.size()) {
      throw Error(Code::RouteCountMismatch).expected(places).found(rows.size());
    }
    origin.ids.assign(size, {});
    origin.experts.assign(size, dropped_route);
    origin.gates.assign(size, 0);
    origin.assigned.assign(size, dropped_route);
  }
  std::vector<std::vector<bool>> taken;
  for (const Origin& origin : problem.origins) taken.emplace_back(origin.ids.size(), false);
  for (const RouteRow& row : rows) {
    const auto fault = [&](Code code) {
      return Error(code)
          .at("route", row.id)
          .at("rank", row.rank)
          .at("token", row.token)
          .at("route slot", row.slot);
    };
    if (row.rank < 0 || row.rank >= problem.ranks()) throw fault(Code::RankOutsideGroup);
    Origin& origin = problem.origins[static_cast<std::size_t>(row.rank)];
    if (row.token < 0 || row.token >= origin.tokens || row.slot < 0 || row.slot >= topk) {
      throw fault(Code::RouteCountMismatch);
    }
    const auto place = static_cast<std::size_t>(row.token * topk + row.slot);
    if (taken[static_cast<std::size_t>(row.rank)][place]) throw fault(Code::RouteIdentityCollision);
    taken[static_cast<std::size_t>(row.rank)][place] = true;
    ++placed;
    origin.experts[place] = row.expert;
    if (row.expert != dropped_route) origin.ids[place] = row.id;
  }
  if (placed != places) throw Error(Code::RouteCountMismatch).expected(places).found(placed);
}

Problem read_problem(const FixtureSet& set) {
  const Value routes = *set.find("routes");
  const Manifest manifest = read_manifest(*set.find("placement"));
  const Topology topology = read_domains(set.find("placement")->at("domains"));
  // Each expert has a slot, so a larger count sizes nothing here.
  if (std::cmp_greater(manifest.experts, manifest.slots.size())) {
    throw set.find("placement")
        ->at("logical_experts")
        .error(Code::LogicalCountMismatch)
        .expected("at most one expert a slot")
        .found(manifest.experts);
  }
  Problem problem;
  problem.placement = std::make_shared<const Placement>(manifest.version, manifest.experts,
                                                        manifest.ranks, manifest.slots, &topology);
  problem.origins.resize(routes.at("process_group").at("member_ranks").elements().size());
  read_hidden(routes, problem);
  std::vector<std::int32_t> tokens;
  for (const Origin& origin : problem.origins) tokens.push_back(origin.tokens);

  const std::vector<RouteRow> rows = read_routes(routes);
  std::int32_t topk = 0;
  for (const RouteRow& row : rows) topk = std::max(topk, row.slot + 1);
  place_routes(problem, rows, tokens, topk);
  read_choices(routes, manifest, problem);
  for (const Value& expert : routes.at("experts").elements()) {
    problem.scales.push_back(static_cast<float>(expert.at("scale").number()));
  }
  if (std::cmp_not_equal(problem.scales.size(), manifest.experts)) {
    throw routes.at("experts")
        .error(Code::LogicalCountMismatch)
        .expected(manifest.experts)
        .found(problem.scales.size());
  }
  return problem;
}

}  // namespace waybill::conformance
