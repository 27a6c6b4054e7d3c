// topology.json: the record's own consistency, split vectors in peer order, route classes, and the
// ledgers of a flat exchange and of one over relays (reference text 0x07).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "conformance/check.h"
#include "conformance/relay_part.h"
#include "conformance/split_vectors.h"
#include "io/json_document.h"
#include "topology/manifest_checks.h"
#include "waybill/exchange_ledger.h"

namespace waybill::conformance {
namespace {

// The file is a topology manifest but for its schema: the library's reader lists its faults.
TopologyManifest read_record(Check& check, const Value& root) {
  Json plain = root.json();
  plain.erase("schema");
  const JsonDocument document = JsonDocument::parse(plain.dump(), root.file());
  TopologyManifest manifest;
  const Faults faults =
      Faults::collect([&](Faults& found) { manifest = read_topology_manifest(document, found); });
  for (const Error& fault : faults.all()) check.report.violation(fault, root);
  return manifest;
}

// What a manifest may leave out and the fixture states: places, fabric domains, relays and the way
// to each NIC follow from the nodes and NICs.
void check_ranks(Check& check, const Value& root) {
  Report& report = check.report;
  std::map<std::string, Value> nodes, nics;
  for (const Value& node : root.at("nodes").elements()) nodes.emplace(node.at("node").text(), node);
  for (const Value& nic : root.at("nics").elements()) nics.emplace(nic.at("nic").text(), nic);
  std::map<std::string, Json> domain_of_node, node_of_domain;
  std::int32_t next = 0;
  for (const Value& rank : root.at("ranks").elements()) {
    const Json number = rank.at("rank").json();
    report.expect(rank, "rank", next++, {Code::DomainNotPartition});
    const std::string name = rank.at("node").text(), domain = rank.at("domain").text();
    report.expect(rank, "domain", domain_of_node.emplace(name, domain).first->second,
                  {Code::DomainNotPartition});
    report.expect(rank, "node", node_of_domain.emplace(domain, name).first->second,
                  {Code::DomainNotPartition});
    if (const auto node = nodes.find(name); node != nodes.end()) {
      const std::vector<std::int32_t> members = node->second.at("members").ids();
      const auto place =
          std::find(members.begin(), members.end(), rank.at("rank").id()) - members.begin();
      report.expect(rank, "gpu_local_rank", place, {Code::DomainNotPartition});
      report.expect(rank, "relay", node->second.at("relay_rank").json() == number,
                    {Code::RelayNotMember});
    }
    if (const auto nic = nics.find(rank.at("nic").text()); nic != nics.end()) {
      const Json& direct = nic->second.at("direct_rank").json();
      report.expect(rank, "nic_via", direct == number ? Json() : direct,
                    {Code::NicOwnershipMismatch});
    }
  }
}

// One peer slot for every rank, so that each keeps its axis in every split vector.
void check_full_group(Check& check, const Value& root) {
  for (const Value& group : root.at("groups").elements()) {
    if (group.at("kind").json() != "full_ep") continue;
    Json sorted = group.at("peer_order").json(), ranks = Json::array();
    if (sorted.is_array()) std::sort(sorted.begin(), sorted.end());
    for (const Value& rank : root.at("ranks").elements()) ranks.push_back(rank.at("rank").json());
    check.report.expect_that(sorted == ranks, Code::GroupShapeMismatch, group.at("peer_order"),
                             ranks);
  }
}

void check_topology_labels(Check& check, const Value& root) {
  const Value binding = root.at("handle_binding");
  check.report.expect(binding, "collective_epoch", root.at("collective_epoch").json(),
                      {Code::CollectiveEpochMismatch});
  check.report.expect(binding, "placement", root.at("placement").json(),
                      {Code::GenerationMismatch});
  if (const auto placement = check.set.find("placement")) {
    check.report.expect(root, "placement", placement->at("placement_version").json(),
                        {Code::GenerationMismatch});
    Json domains = Json::object();
    for (const Value& node : root.at("nodes").elements()) {
      domains[node.at("node").text()] = node.at("members").json();
    }
    check.report.expect(placement->at("domains"), domains, {Code::DomainNotPartition});
  }
  for (const auto& [claim, stated] : root.at("evidence").members()) {
    check.report.expect(stated, "not_claimed", {Code::UnsupportedClaim});
  }
}

void check_frozen_counts(Check& check, const Value& root) {
  const Value frozen = root.at("frozen_counts");
  const auto expect = [&](std::string_view key, std::string_view list, Code code) {
    check.report.expect(frozen, key, root.at(list).json().size(), {code});
  };
  expect("ranks", "ranks", Code::DomainNotPartition);
  expect("nodes", "nodes", Code::DomainNotPartition);
  expect("nics", "nics", Code::NicOwnershipMismatch);
  expect("groups", "groups", Code::GroupShapeMismatch);
  expect("routes", "route_classes", Code::RouteClassMismatch);
  expect("classes", "class_counts", Code::RouteClassMismatch);
}

// The kind of a group, not its id, says what it is for.
const GroupRecord* full_group(const TopologyManifest& manifest) {
  if (!manifest.groups) return nullptr;
  const auto& groups = manifest.groups->groups;
  const auto found = std::ranges::find(groups, GroupKind::full_ep, &GroupRecord::kind);
  return found == groups.end() ? nullptr : &*found;
}

std::vector<Rank> relays_of(const TopologyManifest& manifest) {
  std::vector<Rank> relays;
  for (const NodeRecord& node : manifest.nodes) {
    if (node.relay) relays.push_back(*node.relay);
  }
  return relays;
}

void check_wrong_vectors(Check& check, const Value& root) {
  const Value wrong = root.at("wrong_vectors");
  const std::int32_t ranks = check.trace->group().size();
  bool any = false;
  for (const auto& [key, stated] : wrong.members()) {
    std::int32_t rank = -1;
    if (key == "error") {
      check.report.expect(stated, name(Code::SplitVectorMismatch), {Code::SplitVectorMismatch});
      continue;
    }
    const bool source = std::sscanf(key.c_str(), "source%d_global_order", &rank) == 1;
    const bool known = source || std::sscanf(key.c_str(), "dest%d_global_column", &rank) == 1;
    check.report.expect_that(known && rank >= 0 && rank < ranks, Code::SplitVectorMismatch, stated,
                             "a vector of a rank");
    if (!known || rank < 0 || rank >= ranks) continue;
    any = true;
    const auto derived = source ? check.trace->send_counts() : check.trace->recv_counts();
    check.report.expect(stated, derived[static_cast<std::size_t>(rank)],
                        {Code::SplitVectorMismatch});
  }
  check.report.expect_that(any || ranks == 1, Code::SplitVectorMismatch, wrong, "vectors");
}

void check_splits(Check& check, const Value& root, const ProcessGroup& group) {
  const Trace trace(*check.problem, group);
  Json peers = Json::object();
  for (std::int32_t rank = 0; rank < group.size(); ++rank) {
    peers[std::to_string(rank)] = group.peer_of(Rank{rank}).value;
  }
  const auto split = {Code::SplitVectorMismatch};
  check.report.expect(root, "peer_slot_of_rank", peers, split);
  expect_splits(check.report, root, "count_matrix_global", check.trace->send_counts(),
                {Code::CountMatrixMismatch});
  expect_splits(check.report, root, "send_splits", trace.send_counts(), split);
  expect_splits(check.report, root, "recv_splits", trace.recv_counts(), split);
  check_wrong_vectors(check, root);
}

// A route between two ranks, by its name.
struct Journey {
  std::string route;
  Rank source, destination;
};

std::vector<Journey> journeys(const Problem& problem) {
  std::vector<Journey> journeys;
  for (std::int32_t rank = 0; rank < problem.ranks(); ++rank) {
    const Origin& origin = problem.origins[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < origin.ids.size(); ++i) {
      if (origin.assigned[i] == dropped_route) continue;
      journeys.push_back(
          {origin.ids[i], Rank{rank}, problem.placement->rank_of(SlotId{origin.assigned[i]})});
    }
  }
  return journeys;
}

void check_classes(Check& check, const Value& root, const Topology& topology) {
  constexpr std::array all{RouteClass::same_gpu, RouteClass::same_node_remote_gpu,
                           RouteClass::different_node};
  constexpr std::array fractions{"gpu", "intra", "inter"};
  Json classes = Json::object(), members = Json::object(), counts = Json::object();
  for (const RouteClass each : all) members[std::string(name(each))] = Json::array();
  for (const Journey& journey : journeys(*check.problem)) {
    const std::string kind(name(classify(topology, journey.source, journey.destination)));
    classes[journey.route] = kind;
    members[kind].push_back(journey.route);
  }
  Json shares = Json::object();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string kind(name(all[i]));
    counts[kind] = members[kind].size();
    shares[fractions[i]] = fmt::format("{}/{}", members[kind].size(), classes.size());
  }
  const auto code = {Code::RouteClassMismatch};
  check.report.expect(root, "route_classes", classes, code);
  check.report.expect(root, "class_members", members, code);
  check.report.expect(root, "class_counts", counts, code);
  check.report.expect(root, "fractions", shares, code);
}

void check_row_bytes(Check& check, const Value& root) {
  const auto bytes = check.set.find("bytes");
  if (!bytes) return;
  const std::int64_t width = bytes->at("representation").at("activation_bytes").integer();
  check.report.expect(root, "bytes_per_row", check.problem->width * width,
                      {Code::FlatLedgerMismatch});
}

void check_path(Check& check, const Value& stated, const PathLedger& path) {
  const auto code = {Code::FlatLedgerMismatch};
  check.report.expect(stated, "dispatch_rows", path.rows.value, code);
  check.report.expect(stated, "dispatch_bytes", path.dispatch.value, code);
  check.report.expect(stated, "round_trip_bytes", path.round_trip.value, code);
  check.report.expect(stated, "directed_pairs", path.pairs.size(), code);
  check.report.expect(stated, "pairs", pairs_of(path.pairs), code);
}

void check_exchange_ledgers(Check& check, const Value& root, const TopologyManifest& manifest) {
  const Topology topology = manifest.topology();
  const CountMatrix counts(check.trace->plans_in_peer_order(), check.trace->group());
  const std::int64_t row_bytes = root.at("bytes_per_row").integer();
  const FlatLedger flat = flat_ledger(counts, topology, row_bytes);
  check.report.guard(root.at("flat"), [&] {
    check_path(check, root.at("flat").at("intra"), flat.intra);
    check_path(check, root.at("flat").at("inter"), flat.inter);
  });
  const std::vector<Rank> relays = relays_of(manifest);
  const RelayPart part{check, root.at("hierarchical"), manifest.groups->groups, relays, topology,
                       counts};
  check.report.guard(part.stated, [&] { check_relay_ledger(part, flat, row_bytes); });
  check.report.guard(part.stated, [&] { check_relay_splits(part); });
  Json routes = Json::object();
  for (const Journey& journey : journeys(*check.problem)) {
    if (classify(topology, journey.source, journey.destination) == RouteClass::different_node) {
      check.report.guard(part.stated, [&] {
        check_relay_route(part, journey.route, journey.source, journey.destination);
      });
      routes[journey.route] = true;
    }
  }
  for (const auto& [route, stated] : part.stated.at("routes").members()) {
    check.report.expect_that(routes.contains(route), Code::RelayLedgerMismatch, stated,
                             "a route between nodes");
  }
}

}  // namespace

void check_topology(Check& check, const Value& root) {
  for (const auto part :
       {check_topology_labels, check_frozen_counts, check_ranks, check_full_group}) {
    check.report.guard(root, [&] { part(check, root); });
  }
  const TopologyManifest manifest = read_record(check, root);
  const GroupRecord* full = full_group(manifest);
  check.report.expect_that(full != nullptr, Code::GroupShapeMismatch, root.at("groups"),
                           "a group of kind full_ep");
  if (check.trace == nullptr || full == nullptr) {
    check.report.unchecked(root.file() + ": splits, classes and ledgers, which need routes");
    return;
  }
  if (const auto routes = check.set.find("routes")) {
    check.report.expect_that(routes->at("process_group").at("id").json() == full->id.value,
                             Code::ProcessGroupMismatch, root.at("groups"), "the routes' group");
  }
  check.report.guard(root, [&] { check_classes(check, root, manifest.topology()); });
  check.report.guard(root, [&] { check_row_bytes(check, root); });
  check.report.guard(root, [&] {
    check_splits(check, root, ProcessGroup(full->id, full->epoch, full->peer_order));
  });
  check.report.guard(root, [&] { check_exchange_ledgers(check, root, manifest); });
}

}  // namespace waybill::conformance
