// Which ranks exist, which node owns each, and the order of a process group's peers. The only place
// where a global rank becomes a peer slot. Source: reference text 0x01A0, 0x03B, 0x07.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "waybill/ids.h"

namespace waybill {

// Ranks partitioned over nodes. Ranks are 0 … ranks-1.
class Topology {
 public:
  // `ranks` ranks over `nodes` nodes in equal runs of consecutive ranks; InvalidValue when they
  // don't divide.
  static Topology uniform(std::int32_t ranks, std::int32_t nodes = 1);
  // node_of[r] for each rank; node ids must be 0 … n-1 with every node non-empty
  // (DomainNotPartition).
  static Topology of(std::vector<NodeId> node_of, std::vector<std::string> node_names = {});

  std::int32_t ranks() const { return static_cast<std::int32_t>(node_of_.size()); }
  std::int32_t nodes() const { return static_cast<std::int32_t>(node_names_.size()); }
  NodeId node_of(Rank rank) const { return node_of_[rank.index()]; }
  const std::string& node_name(NodeId node) const { return node_names_[node.index()]; }

 private:
  std::vector<NodeId> node_of_;
  std::vector<std::string> node_names_;
};

// One communicator membership epoch: who takes part, and in which order its peers stand. Peer order
// may be any permutation of the members.
class ProcessGroup {
 public:
  // Throws PeerOrderInvalid when a rank is negative, not below 2^20 or stands twice, or the order
  // is empty.
  ProcessGroup(ProcessGroupId id, GroupEpoch epoch, std::vector<Rank> peer_order);
  // Peers 0 … ranks-1 in rank order.
  static ProcessGroup identity(std::int32_t ranks);

  const ProcessGroupId& id() const { return id_; }
  GroupEpoch epoch() const { return epoch_; }
  std::int32_t size() const { return static_cast<std::int32_t>(peer_order_.size()); }
  std::span<const Rank> peer_order() const { return peer_order_; }
  bool contains(Rank rank) const;
  Rank rank_of(PeerSlot peer) const { return peer_order_[peer.index()]; }
  PeerSlot peer_of(Rank rank) const;  // RankOutsideGroup when not a member
  // The members in ascending rank order, as peer slots: the order in which a receiver visits its
  // sources, so that expert-major order doesn't depend on the peer order.
  std::span<const PeerSlot> by_rank() const { return by_rank_; }

 private:
  ProcessGroupId id_;
  GroupEpoch epoch_;
  std::vector<Rank> peer_order_;
  std::vector<PeerSlot> by_rank_;
  std::vector<std::int32_t> peer_of_rank_;  // -1: no member
};

}  // namespace waybill
