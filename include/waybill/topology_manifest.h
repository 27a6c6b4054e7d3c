// Topology and process groups as files: the node, fabric domain and NIC of each rank, and the peer
// order of each group. Schema: docs/topology-manifest.md. Source: reference text 0x07A, 0x07G.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/ids.h"
#include "waybill/topology.h"

namespace waybill {

using TopologyVersion = Label<struct TopologyVersionTag>;

struct RankRecord {
  Rank rank;
  std::string node;
  std::int32_t local_rank = 0;  // position of its GPU in the node; ranks may share a GPU
  std::string domain;           // intra-node fabric, empty: not stated
  std::string nic;              // empty: none
  std::optional<Rank> nic_via;  // the rank whose GPU the NIC hangs at; nullopt: its own
};

struct NodeRecord {
  std::string name;
  std::vector<Rank> members;
  std::optional<Rank> relay;   // nullopt: no schedule goes over a relay of this node
  std::string nic;             // empty: not stated
  ProcessGroupId local_group;  // empty: none
};

struct NicRecord {
  std::string name;
  std::string node;
  std::optional<Rank> direct_rank;
};

enum class GroupKind : std::uint8_t {
  full_ep,     // all ranks
  node_local,  // the ranks of one node
  relays,      // the relay of each node
};
std::string_view name(GroupKind kind);

struct GroupRecord {
  ProcessGroupId id;
  GroupKind kind = GroupKind::full_ep;
  std::string node;  // of a node-local group
  std::vector<Rank> peer_order;
  GroupEpoch epoch;
};

// The groups of one membership epoch.
struct GroupTable {
  GroupEpoch epoch;
  std::vector<GroupRecord> groups;

  // ProcessGroupMismatch when there is no group of that id.
  ProcessGroup group(const ProcessGroupId& id) const;
};

struct TopologyManifest {
  TopologyVersion version;
  std::vector<RankRecord> ranks;  // in rank order, without holes
  std::vector<NodeRecord> nodes;  // in the order of NodeId
  std::vector<NicRecord> nics;
  std::optional<GroupTable> groups;

  Topology topology() const;
};

// Groups in a file of their own: they are rebuilt more often than machines are rewired.
struct GroupsManifest {
  TopologyVersion topology;  // that they were built for
  GroupTable table;
};

// Reads and checks; `file` names the source in errors, which also name field, rank, node, NIC or
// group. DomainNotPartition, NicOwnershipMismatch, RelayNotMember, and those of check_groups().
TopologyManifest parse_topology_manifest(std::string_view json, std::string_view file);
TopologyManifest read_topology_manifest(const std::string& path);
// The manifest's text; reads back to an equal one.
std::string topology_manifest(const TopologyManifest& manifest);

// With `topology` the groups are also checked against it.
GroupsManifest parse_groups_manifest(std::string_view json, std::string_view file,
                                     const TopologyManifest* topology = nullptr);
GroupsManifest read_groups_manifest(const std::string& path,
                                    const TopologyManifest* topology = nullptr);
std::string groups_manifest(const GroupsManifest& manifest);

// DuplicateKey (an id twice), PeerOrderInvalid, CollectiveEpochMismatch (a group of another epoch
// than the table's), RankOutsideGroup (full_ep), LocalGroupCrossesNode, RelayGroupHasNonRelay.
void check_groups(const GroupTable& groups, const TopologyManifest& topology);

}  // namespace waybill
