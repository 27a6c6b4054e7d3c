// Ledgers of flat and relayed exchanges against a direct count, for any ranks on any nodes.
#include "waybill/exchange_ledger.h"

#include <gtest/gtest.h>

#include <set>

#include "property/property.h"
#include "support/fault.h"

namespace waybill::testing {
namespace {

struct CountedExchange {
  Topology topology;
  std::vector<Rank> relays;
  CountMatrix counts;
};

// Each node has a rank; the others lie anywhere.
CountedExchange draw_exchange() {
  const std::int32_t nodes = property::draw(1, 5), ranks = nodes + property::draw(0, 6);
  std::vector<NodeId> node_of;
  std::vector<Rank> relays;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    node_of.emplace_back(rank < nodes ? rank : property::draw(0, nodes));
    if (rank < nodes) relays.emplace_back(rank);
  }
  CountMatrix counts(ranks);
  for (std::int32_t source = 0; source < ranks; ++source) {
    for (std::int32_t destination = 0; destination < ranks; ++destination) {
      counts(Rank{source}, Rank{destination}) = property::draw(0, 3);
    }
  }
  return {Topology::of(std::move(node_of)), std::move(relays), std::move(counts)};
}

PROPERTY(ExchangeLedger, RelaysKeepTheRowsBetweenNodesAndAddMovesInsideThem) {
  const CountedExchange x = draw_exchange();
  std::int64_t local = 0, intra = 0, inter = 0, staged = 0;
  std::set<std::pair<NodeId, NodeId>> node_pairs;
  for (std::int32_t from = 0; from < x.counts.ranks(); ++from) {
    for (std::int32_t to = 0; to < x.counts.ranks(); ++to) {
      const std::int64_t rows = x.counts(Rank{from}, Rank{to});
      const NodeId a = x.topology.node_of(Rank{from}), b = x.topology.node_of(Rank{to});
      (from == to ? local : a == b ? intra : inter) += rows;
      if (a == b || rows == 0) continue;
      staged += rows * ((x.relays[a.index()].value != from) + (x.relays[b.index()].value != to));
      node_pairs.emplace(a, b);
      node_pairs.emplace(b, a);
    }
  }
  const FlatLedger flat = flat_ledger(x.counts, x.topology, 6);
  const RelayLedger relayed = relay_ledger(x.counts, x.topology, x.relays, 6);
  HOLDS(flat.same_gpu.value == local);
  HOLDS(flat.intra.rows.value == intra);
  HOLDS(flat.inter.round_trip.value == 12 * inter);
  HOLDS(relayed.inter_round_trip == flat.inter.round_trip);
  HOLDS(relayed.added.value == 2 * staged);
  HOLDS(relayed.added_bytes.value == 12 * staged);
  HOLDS(relayed.pairs.size() == node_pairs.size());
  HOLDS(relayed.combine[0].rows == relayed.dispatch[2].rows);
}

TEST(CountMatrix, SplitsFollowThePeerOrderOfTheGroup) {
  CountMatrix counts(4);
  for (std::int32_t rank = 0; rank < 4; ++rank) counts(Rank{0}, Rank{rank}) = 10 + rank;
  const ProcessGroup group(ProcessGroupId("g"), GroupEpoch{0},
                           {Rank{2}, Rank{0}, Rank{3}, Rank{1}});
  EXPECT_EQ(counts.send_splits(Rank{0}, group), (std::vector<std::int64_t>{12, 10, 13, 11}));
  EXPECT_EQ(counts.recv_splits(Rank{3}, group), (std::vector<std::int64_t>{0, 13, 0, 0}));
  EXPECT_EQ(fault([&] { CountMatrix(3).send_splits(Rank{0}, group); }).code(),
            Code::RankOutsideGroup);
  EXPECT_EQ(fault([&] { CountMatrix(3).recv_splits(Rank{3}, ProcessGroup::identity(3)); }).code(),
            Code::RankOutsideGroup);
}

TEST(ExchangeLedger, RefusesATopologyOfOtherRanks) {
  const CountMatrix counts(3);
  EXPECT_EQ(fault([&] { flat_ledger(counts, Topology::uniform(4), 6); }).code(),
            Code::RankCountMismatch);
  EXPECT_EQ(fault([&] { relay_ledger(counts, Topology::uniform(3), {}, 6); }).code(),
            Code::RelayNotMember);
}

TEST(ExchangeLedger, RefusesWhat64BitsDoNotHold) {
  CountMatrix counts(2);
  counts(Rank{0}, Rank{1}) = std::int64_t{1} << 40;
  EXPECT_EQ(fault([&] { flat_ledger(counts, Topology::uniform(2), std::int64_t{1} << 40); }).code(),
            Code::InvalidValue);
}

}  // namespace
}  // namespace waybill::testing
