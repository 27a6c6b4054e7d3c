#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "topology/manifest_checks.h"

namespace waybill {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::int32_t> numbers(const std::vector<Rank>& ranks) {
  std::vector<std::int32_t> values;
  values.reserve(ranks.size());
  for (Rank rank : ranks) values.push_back(rank.value);
  return values;
}

Json to_json(const RankRecord& record) {
  Json row{
      {"rank", record.rank.value}, {"node", record.node}, {"gpu_local_rank", record.local_rank}};
  if (!record.domain.empty()) row["domain"] = record.domain;
  if (!record.nic.empty()) row["nic"] = record.nic;
  if (record.nic_via) row["nic_via"] = record.nic_via->value;
  return row;
}

Json to_json(const NodeRecord& node) {
  Json row{{"node", node.name}, {"members", numbers(node.members)}};
  if (node.relay) row["relay_rank"] = node.relay->value;
  if (!node.nic.empty()) row["nic"] = node.nic;
  if (!node.local_group.value.empty()) row["local_group"] = node.local_group.value;
  return row;
}

Json to_json(const NicRecord& nic) {
  Json row{{"nic", nic.name}, {"node", nic.node}};
  if (nic.direct_rank) row["direct_rank"] = nic.direct_rank->value;
  return row;
}

Json to_json(const GroupRecord& group) {
  Json row{{"id", group.id.value}, {"kind", name(group.kind)}};
  if (group.kind == GroupKind::node_local) row["node"] = group.node;
  row["peer_order"] = numbers(group.peer_order);
  row["collective_epoch"] = group.epoch.value;
  return row;
}

// A member whose value is a list, an element a line, so that a diff shows what changed.
template <class Record>
std::string list(std::string_view key, const std::vector<Record>& records) {
  std::string text = fmt::format(",\n \"{}\": [", key);
  for (std::size_t i = 0; i < records.size(); ++i) {
    text += (i == 0 ? "\n  " : ",\n  ") + to_json(records[i]).dump();
  }
  return text + "\n ]";
}

std::string opening(std::string_view schema, const TopologyVersion& version) {
  return fmt::format("{{\n \"schema\": \"{}\",\n \"topology_version\": {}", schema,
                     Json(version.value).dump());
}

std::string group_members(const GroupTable& table) {
  return fmt::format(",\n \"collective_epoch\": {}{}", table.epoch.value,
                     list("groups", table.groups));
}

}  // namespace

std::string topology_manifest(const TopologyManifest& manifest) {
  return opening(topology_schema, manifest.version) + list("ranks", manifest.ranks) +
         list("nodes", manifest.nodes) + list("nics", manifest.nics) +
         (manifest.groups ? group_members(*manifest.groups) : "") + "\n}\n";
}

std::string groups_manifest(const GroupsManifest& manifest) {
  return opening(groups_schema, manifest.topology) + group_members(manifest.table) + "\n}\n";
}

}  // namespace waybill
