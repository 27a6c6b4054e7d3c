#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "io/json_document.h"
#include "topology/manifest_checks.h"
#include "waybill/error.h"

namespace waybill {
namespace {

constexpr std::int64_t most_ranks = 1 << 20;
constexpr std::int64_t most_local_ranks = 1 << 10;
constexpr std::size_t most_groups = 1 << 14;

Rank rank_in(const JsonValue& value) {
  return Rank{static_cast<std::int32_t>(value.as_integer(0, most_ranks - 1))};
}

std::optional<Rank> rank_or_none(const JsonValue& object, std::string_view field) {
  const auto value = object.find(field);
  if (!value || value->is(JsonKind::null)) return std::nullopt;
  return rank_in(*value);
}

std::vector<Rank> ranks_in(const JsonValue& list) {
  std::vector<Rank> ranks;
  ranks.reserve(list.size());
  for (const JsonValue value : list.elements()) ranks.push_back(rank_in(value));
  return ranks;
}

std::string label_or_none(const JsonValue& object, std::string_view field) {
  const auto value = object.find(field);
  return value && !value->is(JsonKind::null) ? std::string(value->as_label()) : std::string();
}

// A faulty element is reported and left out.
template <class Record, class Read>
std::vector<Record> records_in(const JsonValue& list, Faults& faults, Read read) {
  std::vector<Record> records;
  for (const JsonValue value : list.elements()) {
    faults.attempt([&] { records.push_back(read(value)); });
  }
  return records;
}

RankRecord rank_record(const JsonValue& value) {
  RankRecord record;
  record.rank = rank_in(value.at("rank"));
  record.node = value.at("node").as_label();
  if (const auto local = value.find("gpu_local_rank")) {
    record.local_rank = static_cast<std::int32_t>(local->as_integer(0, most_local_ranks - 1));
  }
  record.domain = label_or_none(value, "domain");
  record.nic = label_or_none(value, "nic");
  record.nic_via = rank_or_none(value, "nic_via");
  return record;
}

NodeRecord node_record(const JsonValue& value) {
  return {.name = std::string(value.at("node").as_label()),
          .members = ranks_in(value.at("members")),
          .relay = rank_or_none(value, "relay_rank"),
          .nic = label_or_none(value, "nic"),
          .local_group = ProcessGroupId(label_or_none(value, "local_group"))};
}

NicRecord nic_record(const JsonValue& value) {
  return {.name = std::string(value.at("nic").as_label()),
          .node = std::string(value.at("node").as_label()),
          .direct_rank = rank_or_none(value, "direct_rank")};
}

GroupKind kind_in(const JsonValue& value) {
  for (const GroupKind kind : {GroupKind::full_ep, GroupKind::node_local, GroupKind::relays}) {
    if (value.as_string() == name(kind)) return kind;
  }
  throw value.error(Code::InvalidValue)
      .expected("one of full_ep, node_local, relays")
      .found(value.text());
}

GroupEpoch epoch_in(const JsonValue& value) {
  return GroupEpoch{static_cast<std::uint64_t>(value.as_integer(0))};
}

GroupTable group_table(const JsonValue& root, Faults& faults) {
  GroupTable table;
  table.epoch = epoch_in(root.at("collective_epoch"));
  const JsonValue list = root.at("groups");
  if (list.size() > most_groups) {
    throw list.error(Code::InvalidValue)
        .expected(fmt::format("at most {} groups", most_groups))
        .found(list.size());
  }
  table.groups = records_in<GroupRecord>(list, faults, [&](const JsonValue& value) {
    GroupRecord group;
    group.id = ProcessGroupId(std::string(value.at("id").as_label()));
    group.kind = kind_in(value.at("kind"));
    if (group.kind == GroupKind::node_local) group.node = value.at("node").as_label();
    group.peer_order = ranks_in(value.at("peer_order"));
    const auto epoch = value.find("collective_epoch");
    group.epoch = epoch ? epoch_in(*epoch) : table.epoch;
    return group;
  });
  return table;
}

// Nodes in the order in which ranks name them first.
std::vector<NodeRecord> nodes_of_ranks(const std::vector<RankRecord>& ranks) {
  std::vector<NodeRecord> nodes;
  std::map<std::string_view, std::size_t> index;
  for (const RankRecord& record : ranks) {
    const auto [at, added] = index.emplace(record.node, nodes.size());
    if (added) nodes.emplace_back().name = record.node;
    nodes[at->second].members.push_back(record.rank);
  }
  return nodes;
}

// The NICs that ranks name, each of the node of its first rank.
std::vector<NicRecord> nics_of_ranks(const std::vector<RankRecord>& ranks) {
  std::vector<NicRecord> nics;
  std::set<std::string_view> known;
  for (const RankRecord& record : ranks) {
    if (record.nic.empty() || !known.insert(record.nic).second) continue;
    nics.push_back({record.nic, record.node, std::nullopt});
  }
  return nics;
}

// ranks[].relay and nodes[].relay_rank name the same relays; either alone is enough.
void read_relay_flags(const JsonValue& ranks, std::vector<NodeRecord>& nodes, Faults& faults) {
  std::map<std::string_view, NodeRecord*> by_name;
  for (NodeRecord& node : nodes) by_name.emplace(node.name, &node);
  for (const JsonValue value : ranks.elements()) {
    faults.attempt([&] {
      const auto flag = value.find("relay");
      if (!flag || !flag->as_bool()) return;
      const Rank rank = rank_in(value.at("rank"));
      const auto found = by_name.find(value.at("node").as_label());
      if (found == by_name.end()) return;  // reported with the members
      NodeRecord* const node = found->second;
      if (!node->relay) node->relay = rank;
      if (*node->relay == rank) return;
      throw flag->error(Code::RelayNotMember)
          .at("node", node->name)
          .expected(fmt::format("rank {}, the node's one relay", node->relay->value))
          .found(fmt::format("rank {}", rank.value));
    });
  }
}

// Files of other makers that use the same fields have schemas of their own.
void require_schema(const JsonValue& root, std::string_view schema) {
  const auto stated = root.find("schema");
  if (!stated || stated->as_string() == schema) return;
  if (!stated->as_string().starts_with("waybill-")) return;
  throw stated->error(Code::UnknownSchema).expected(schema).found(stated->text());
}

// Gives the faults of a check the file that was checked.
template <class Check>
void checking(const JsonDocument& document, Faults& faults, Check check) {
  Faults found = Faults::collect(check);
  for (const Error& fault : found.all()) {
    Error placed(fault.code());
    placed.at("file", document.file());
    for (const auto& [coordinate, value] : fault.where()) placed.at(coordinate, value);
    faults.report(placed.expected(fault.expected_text()).found(fault.found_text()));
  }
}

}  // namespace

TopologyManifest read_topology_manifest(const JsonDocument& document, Faults& faults) {
  const JsonValue root = document.root();
  TopologyManifest manifest;
  require_schema(root, topology_schema);
  faults.attempt([&] { manifest.version.value = root.at("topology_version").as_label(); });
  const JsonValue ranks = root.at("ranks");
  const std::size_t before = faults.size();
  manifest.ranks = records_in<RankRecord>(ranks, faults, rank_record);
  if (ranks.size() == 0) {
    faults.report(ranks.error(Code::InvalidValue).expected("at least one rank").found("none"));
  }
  std::ranges::stable_sort(manifest.ranks, {}, &RankRecord::rank);
  const auto nodes = root.find("nodes");
  manifest.nodes =
      nodes ? records_in<NodeRecord>(*nodes, faults, node_record) : nodes_of_ranks(manifest.ranks);
  const auto nics = root.find("nics");
  manifest.nics =
      nics ? records_in<NicRecord>(*nics, faults, nic_record) : nics_of_ranks(manifest.ranks);
  // What is left of a file with records that can't be read would look wrong in other ways too.
  const bool whole = faults.size() == before;
  if (whole) {
    read_relay_flags(ranks, manifest.nodes, faults);
    checking(document, faults, [&](Faults& found) { check_topology(manifest, found); });
  }
  if (!root.find("groups")) return manifest;
  const std::size_t before_groups = faults.size();
  manifest.groups = group_table(root, faults);
  const bool whole_groups = faults.size() == before_groups;
  checking(document, faults, [&](Faults& found) {
    check_group_table(*manifest.groups, found);
    if (whole && whole_groups) check_groups_in(*manifest.groups, manifest, found);
  });
  return manifest;
}

GroupsManifest read_groups_manifest(const JsonDocument& document, const TopologyManifest* topology,
                                    Faults& faults) {
  const JsonValue root = document.root();
  GroupsManifest manifest;
  require_schema(root, groups_schema);
  faults.attempt([&] { manifest.topology.value = root.at("topology_version").as_label(); });
  manifest.table = group_table(root, faults);
  checking(document, faults, [&](Faults& found) {
    check_group_table(manifest.table, found);
    if (topology == nullptr) return;
    if (manifest.topology != topology->version) {
      found.report(Error(Code::ReleaseTupleMismatch)
                       .at("field", "topology_version")
                       .expected(topology->version)
                       .found(manifest.topology));
    }
    check_groups_in(manifest.table, *topology, found);
  });
  return manifest;
}

TopologyManifest parse_topology_manifest(std::string_view json, std::string_view file) {
  Faults first;
  return read_topology_manifest(JsonDocument::parse(json, file), first);
}

TopologyManifest read_topology_manifest(const std::string& path) {
  Faults first;
  return read_topology_manifest(JsonDocument::read(path), first);
}

GroupsManifest parse_groups_manifest(std::string_view json, std::string_view file,
                                     const TopologyManifest* topology) {
  Faults first;
  return read_groups_manifest(JsonDocument::parse(json, file), topology, first);
}

GroupsManifest read_groups_manifest(const std::string& path, const TopologyManifest* topology) {
  Faults first;
  return read_groups_manifest(JsonDocument::read(path), topology, first);
}

}  // namespace waybill
