#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "topology/manifest_checks.h"
#include "waybill/error.h"

namespace waybill {
namespace {

using NodeOfName = std::map<std::string_view, const NodeRecord*>;

NodeOfName nodes_by_name(const TopologyManifest& manifest, Faults& faults) {
  NodeOfName nodes;
  for (const NodeRecord& node : manifest.nodes) {
    if (!nodes.emplace(node.name, &node).second) {
      faults.report(Error(Code::DomainNotPartition)
                        .at("node", node.name)
                        .expected("a name of its own for each node")
                        .found("the name twice"));
    }
  }
  return nodes;
}

void check_rank_numbers(const TopologyManifest& manifest, Faults& faults) {
  std::int32_t next = 0;
  for (const RankRecord& record : manifest.ranks) {
    if (record.rank.value != next) {
      const bool twice = record.rank.value < next;
      faults.report(Error(Code::DomainNotPartition)
                        .at("rank", twice ? record.rank.value : next)
                        .expected("each rank from 0 on once")
                        .found(twice ? "the rank twice" : "no such rank"));
    }
    next = record.rank.value + 1;
  }
}

// The lists of nodes and the words of ranks say the same, and every node has a rank.
void check_members(const TopologyManifest& manifest, const NodeOfName& nodes, Faults& faults) {
  std::map<Rank, std::string_view> node_of;
  for (const RankRecord& record : manifest.ranks) {
    node_of.emplace(record.rank, record.node);
    if (nodes.contains(record.node)) continue;
    faults.report(Error(Code::DomainNotPartition)
                      .at("rank", record.rank)
                      .expected("a node that is listed")
                      .found(record.node));
  }
  std::map<Rank, std::string_view> listed;
  for (const NodeRecord& node : manifest.nodes) {
    if (node.members.empty()) {
      faults.report(Error(Code::DomainNotPartition)
                        .at("node", node.name)
                        .expected("at least one rank")
                        .found("none"));
    }
    for (Rank rank : node.members) {
      const auto stated = node_of.find(rank);
      if (!listed.emplace(rank, node.name).second) {
        faults.report(Error(Code::DomainNotPartition)
                          .at("node", node.name)
                          .at("rank", rank)
                          .expected("each rank in one node")
                          .found(fmt::format("it is listed in {} too", listed.at(rank))));
      } else if (stated == node_of.end() || stated->second != node.name) {
        faults.report(Error(Code::DomainNotPartition)
                          .at("node", node.name)
                          .at("rank", rank)
                          .expected("a rank that states this node")
                          .found(stated == node_of.end() ? "no such rank" : stated->second));
      }
    }
  }
  for (const auto& [rank, node] : node_of) {
    if (listed.contains(rank) || !nodes.contains(node)) continue;
    faults.report(Error(Code::DomainNotPartition)
                      .at("rank", rank)
                      .expected(fmt::format("a member of {}", node))
                      .found("a rank that it doesn't list"));
  }
}

void check_node_relays(const TopologyManifest& manifest, Faults& faults) {
  for (const NodeRecord& node : manifest.nodes) {
    if (!node.relay || std::ranges::find(node.members, *node.relay) != node.members.end()) continue;
    faults.report(Error(Code::RelayNotMember)
                      .at("node", node.name)
                      .expected("a rank of the node")
                      .found(*node.relay));
  }
}

class NicChecks {
 public:
  NicChecks(const TopologyManifest& manifest, Faults& faults) : faults_(faults) {
    for (const RankRecord& record : manifest.ranks) ranks_.emplace(record.rank, &record);
    for (const NicRecord& nic : manifest.nics) {
      if (nics_.emplace(nic.name, &nic).second) continue;
      report(Error(Code::DuplicateKey).at("nic", nic.name).expected("each NIC once"));
    }
  }

  void check(const RankRecord& record) const {
    if (record.nic.empty()) return;
    const auto mismatch = [&] {
      return Error(Code::NicOwnershipMismatch).at("rank", record.rank).at("nic", record.nic);
    };
    if (!owned(record.nic, record.node, mismatch) || !record.nic_via) return;
    const auto via = ranks_.find(*record.nic_via);
    if (via == ranks_.end() || via->second->node != record.node || via->second->nic != record.nic) {
      report(mismatch()
                 .expected(fmt::format("to reach it via a rank of {} that uses it", record.node))
                 .found(fmt::format("rank {}", record.nic_via->value)));
    }
  }

  void check(const NodeRecord& node) const {
    if (node.nic.empty()) return;
    owned(node.nic, node.name, [&] {
      return Error(Code::NicOwnershipMismatch).at("node", node.name).at("nic", node.nic);
    });
  }

  void check(const NicRecord& nic, const NodeOfName& nodes) const {
    const auto mismatch = [&] { return Error(Code::NicOwnershipMismatch).at("nic", nic.name); };
    if (!nodes.contains(nic.node)) {
      report(mismatch().expected("a node that is listed").found(nic.node));
    }
    if (!nic.direct_rank) return;
    const auto direct = ranks_.find(*nic.direct_rank);
    if (direct == ranks_.end() || direct->second->node != nic.node) {
      report(mismatch()
                 .expected(fmt::format("a direct rank in {}", nic.node))
                 .found(nic.direct_rank->value));
    }
  }

 private:
  template <class Mismatch>
  bool owned(const std::string& nic, const std::string& node, Mismatch mismatch) const {
    const auto found = nics_.find(nic);
    if (found != nics_.end() && found->second->node == node) return true;
    report(mismatch()
               .expected(fmt::format("a NIC of {}", node))
               .found(found == nics_.end() ? "no such NIC"
                                           : fmt::format("a NIC of {}", found->second->node)));
    return false;
  }
  void report(Error fault) const { faults_.report(std::move(fault)); }

  Faults& faults_;
  std::map<Rank, const RankRecord*> ranks_;
  std::map<std::string_view, const NicRecord*> nics_;
};

}  // namespace

void check_topology(const TopologyManifest& manifest, Faults& faults) {
  const NodeOfName nodes = nodes_by_name(manifest, faults);
  check_rank_numbers(manifest, faults);
  check_members(manifest, nodes, faults);
  check_node_relays(manifest, faults);
  const NicChecks nics(manifest, faults);
  for (const NicRecord& nic : manifest.nics) nics.check(nic, nodes);
  for (const RankRecord& record : manifest.ranks) nics.check(record);
  for (const NodeRecord& node : manifest.nodes) nics.check(node);
}

Topology TopologyManifest::topology() const {
  std::map<std::string_view, NodeId> ids;
  std::vector<std::string> names;
  for (const NodeRecord& node : nodes) {
    ids.emplace(node.name, static_cast<std::int32_t>(names.size()));
    names.push_back(node.name);
  }
  std::vector<NodeId> node_of;
  for (const RankRecord& record : ranks) {
    const auto id = ids.find(record.node);
    if (id == ids.end()) {
      throw Error(Code::DomainNotPartition)
          .at("rank", record.rank)
          .expected("a node that is listed")
          .found(record.node);
    }
    node_of.push_back(id->second);
  }
  return Topology::of(std::move(node_of), std::move(names));
}

}  // namespace waybill
