#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "topology/manifest_checks.h"
#include "waybill/error.h"

namespace waybill {
namespace {

std::string listed(const std::set<Rank>& ranks) {
  constexpr std::size_t most_shown = 16;
  std::string text;
  std::size_t shown = 0;
  for (Rank rank : ranks) {
    if (shown++ == most_shown) return text + fmt::format(" … of {}", ranks.size());
    text += fmt::format("{}{}", text.empty() ? "ranks " : " ", rank.value);
  }
  return text.empty() ? "no ranks" : text;
}

// "lacks 3, has 2 besides": how two sets of ranks differ.
std::string difference(const std::set<Rank>& expected, const std::set<Rank>& found) {
  std::set<Rank> lacking, surplus;
  std::ranges::set_difference(expected, found, std::inserter(lacking, lacking.end()));
  std::ranges::set_difference(found, expected, std::inserter(surplus, surplus.end()));
  std::string text;
  if (!lacking.empty()) text = "without " + listed(lacking);
  if (!surplus.empty()) text += (text.empty() ? "with " : " and with ") + listed(surplus);
  return text;
}

void require_members(const GroupRecord& group, const std::set<Rank>& expected, Code code,
                     Faults& faults) {
  const std::set<Rank> members(group.peer_order.begin(), group.peer_order.end());
  if (members == expected) return;
  faults.report(Error(code)
                    .at("process_group", group.id)
                    .expected(listed(expected))
                    .found(difference(expected, members)));
}

std::set<Rank> all_ranks(const TopologyManifest& topology) {
  std::set<Rank> ranks;
  for (const RankRecord& record : topology.ranks) ranks.insert(record.rank);
  return ranks;
}

using NodeByName = std::map<std::string_view, const NodeRecord*>;

void check_local_group(const GroupRecord& group, const NodeByName& nodes, Faults& faults) {
  const auto node = nodes.find(group.node);
  if (node == nodes.end()) {
    faults.report(Error(Code::LocalGroupCrossesNode)
                      .at("process_group", group.id)
                      .expected("a node of the topology")
                      .found(group.node));
    return;
  }
  const std::vector<Rank>& members = node->second->members;
  require_members(group, {members.begin(), members.end()}, Code::LocalGroupCrossesNode, faults);
}

// The relays of the nodes; a node without one is reported when groups go over relays.
std::set<Rank> all_relays(const GroupTable& table, const TopologyManifest& topology,
                          Faults& faults) {
  const auto group = std::ranges::find(table.groups, GroupKind::relays, &GroupRecord::kind);
  std::set<Rank> relays;
  for (const NodeRecord& node : topology.nodes) {
    if (node.relay) {
      relays.insert(*node.relay);
    } else if (group != table.groups.end()) {
      faults.report(Error(Code::RelayGroupHasNonRelay)
                        .at("process_group", group->id)
                        .at("node", node.name)
                        .expected("a relay of each node")
                        .found("none"));
    }
  }
  return relays;
}

// The group that a node names as its local one is one.
void check_named_by_nodes(const GroupTable& table, const TopologyManifest& topology,
                          Faults& faults) {
  std::map<std::string_view, const GroupRecord*> by_id;
  for (const GroupRecord& group : table.groups) by_id.emplace(group.id.value, &group);
  for (const NodeRecord& node : topology.nodes) {
    if (node.local_group.value.empty()) continue;
    const auto found = by_id.find(node.local_group.value);
    const GroupRecord* const group = found == by_id.end() ? nullptr : found->second;
    if (group != nullptr && group->kind == GroupKind::node_local && group->node == node.name) {
      continue;
    }
    faults.report(Error(Code::LocalGroupCrossesNode)
                      .at("node", node.name)
                      .at("process_group", node.local_group)
                      .expected(fmt::format("a node_local group of {}", node.name))
                      .found(group == nullptr ? "no such group"
                                              : fmt::format("a {} group", name(group->kind))));
  }
}

}  // namespace

std::string_view name(GroupKind kind) {
  switch (kind) {
    case GroupKind::full_ep: return "full_ep";
    case GroupKind::node_local: return "node_local";
    case GroupKind::relays: return "relays";
  }
  return "unknown";
}

void check_group_table(const GroupTable& table, Faults& faults) {
  std::set<std::string_view> ids;
  for (const GroupRecord& group : table.groups) {
    if (!ids.insert(group.id.value).second) {
      faults.report(Error(Code::DuplicateKey)
                        .at("process_group", group.id)
                        .expected("each group once")
                        .found("the id twice"));
    }
    if (group.epoch != table.epoch) {
      faults.report(Error(Code::CollectiveEpochMismatch)
                        .at("process_group", group.id)
                        .expected(fmt::format("collective_epoch {}", table.epoch.value))
                        .found(group.epoch));
    }
    faults.attempt([&] { ProcessGroup(group.id, group.epoch, group.peer_order); });
  }
}

void check_groups_in(const GroupTable& table, const TopologyManifest& topology, Faults& faults) {
  NodeByName nodes;
  for (const NodeRecord& node : topology.nodes) nodes.emplace(node.name, &node);
  const std::set<Rank> ranks = all_ranks(topology);
  const std::set<Rank> relays = all_relays(table, topology, faults);
  for (const GroupRecord& group : table.groups) {
    switch (group.kind) {
      case GroupKind::full_ep: require_members(group, ranks, Code::RankOutsideGroup, faults); break;
      case GroupKind::node_local: check_local_group(group, nodes, faults); break;
      case GroupKind::relays:
        require_members(group, relays, Code::RelayGroupHasNonRelay, faults);
        break;
    }
  }
  check_named_by_nodes(table, topology, faults);
}

void check_groups(const GroupTable& groups, const TopologyManifest& topology) {
  Faults first;
  check_group_table(groups, first);
  check_groups_in(groups, topology, first);
}

ProcessGroup GroupTable::group(const ProcessGroupId& id) const {
  const auto found = std::ranges::find(groups, id, &GroupRecord::id);
  if (found == groups.end()) {
    throw Error(Code::ProcessGroupMismatch)
        .at("process_group", id)
        .expected("a group of the manifest")
        .found("no such group");
  }
  return {found->id, found->epoch, found->peer_order};
}

}  // namespace waybill
