// What a flat exchange moves by kind of path, and what one over relays moves instead: useful rows
// between nodes stay the same, pairs between nodes become fewer, rows to and from relays are added.
// Logical rows and bytes, never time. Source: reference text 0x07B, 0x07C, 0x07E.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "waybill/ledger.h"
#include "waybill/route_path.h"

namespace waybill {

// C[source][destination] in global rank order, whatever the peer order of the plans' group.
class CountMatrix {
 public:
  explicit CountMatrix(std::int32_t ranks)
      : ranks_(ranks), counts_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)) {}
  // From the plans of all ranks in peer order, whose ranks are 0 … P-1: RankCountMismatch when that
  // isn't a plan a peer, RankOutsideGroup for other ranks.
  CountMatrix(std::span<const HostPlan* const> plans, const ProcessGroup& group);

  std::int32_t ranks() const { return ranks_; }
  // Both ranks in [0, ranks()).
  std::int64_t operator()(Rank source, Rank destination) const {
    return counts_[place(source, destination)];
  }
  std::int64_t& operator()(Rank source, Rank destination) {
    return counts_[place(source, destination)];
  }
  // What `source` sends to each peer, in the group's peer order (0x07B). The group may be a part of
  // the ranks; RankOutsideGroup for a rank beyond them.
  std::vector<std::int64_t> send_splits(Rank source, const ProcessGroup& group) const;
  std::vector<std::int64_t> recv_splits(Rank destination, const ProcessGroup& group) const;

 private:
  std::size_t place(Rank source, Rank destination) const {
    return source.index() * static_cast<std::size_t>(ranks_) + destination.index();
  }
  std::size_t known_place(Rank source, Rank destination) const;

  std::int32_t ranks_;
  std::vector<std::int64_t> counts_;
};

using RankPair = std::pair<Rank, Rank>;  // from, to

struct PathLedger {
  Rows rows;  // one way
  LogicalBytes dispatch, round_trip;
  std::vector<RankPair> pairs;  // of dispatch, ascending
};

struct FlatLedger {
  Rows same_gpu;
  PathLedger intra, inter;  // inside nodes, between nodes
};

struct RelayLedger {
  struct Stage {
    Rows rows;
    LogicalBytes bytes;
  };
  std::array<Stage, 3> dispatch;  // by RelayStage
  std::array<Stage, 3> combine;   // in the order of the way back: dest_relay_to_final first
  LogicalBytes inter_round_trip;
  Rows added;  // relay moves inside nodes, both ways
  LogicalBytes added_bytes;
  std::vector<RankPair> pairs;  // between relays, both ways, ascending
};

// `row_bytes`: one row's payload in either direction. RankCountMismatch for a topology of another
// rank count; InvalidValue when a figure exceeds 2^63-1 bytes.
FlatLedger flat_ledger(const CountMatrix& counts, const Topology& topology, std::int64_t row_bytes);
// Rows between nodes over one relay a node; the errors of relay_hops() as well.
RelayLedger relay_ledger(const CountMatrix& counts, const Topology& topology,
                         std::span<const Rank> relays, std::int64_t row_bytes);
// Rows that one stage of the dispatch moves, from rank to rank.
CountMatrix relay_stage(const CountMatrix& counts, const Topology& topology,
                        std::span<const Rank> relays, RelayStage stage);

// Each pair and its reverse, ascending, once: the directed pairs of a round trip.
std::vector<RankPair> both_ways(std::span<const RankPair> pairs);

}  // namespace waybill
