#include "waybill/exchange_ledger.h"

#include <fmt/format.h>

#include <set>

#include "plan/checked_bytes.h"
#include "waybill/error.h"

namespace waybill {
namespace {

void require_ranks(const CountMatrix& counts, const Topology& topology) {
  if (counts.ranks() == topology.ranks()) return;
  throw Error(Code::RankCountMismatch).expected(topology.ranks()).found(counts.ranks());
}

// Calls `visit(source, destination, rows)` for each pair of ranks that rows go between.
template <class Visit>
void for_each_pair(const CountMatrix& counts, const Visit& visit) {
  for (std::int32_t source = 0; source < counts.ranks(); ++source) {
    for (std::int32_t destination = 0; destination < counts.ranks(); ++destination) {
      const std::int64_t rows = counts(Rank{source}, Rank{destination});
      if (rows > 0) visit(Rank{source}, Rank{destination}, rows);
    }
  }
}

LogicalBytes bytes_of(Rows rows, std::int64_t row_bytes, std::int64_t ways = 1) {
  return LogicalBytes{checked_bytes("exchange", {rows.value, row_bytes, ways})};
}

}  // namespace

CountMatrix::CountMatrix(std::span<const HostPlan* const> plans, const ProcessGroup& group)
    : CountMatrix(group.size()) {
  if (static_cast<std::int64_t>(plans.size()) != group.size()) {
    throw Error(Code::RankCountMismatch)
        .at("group", group.id())
        .expected(group.size())
        .found(plans.size());
  }
  for (std::int32_t rank = 0; rank < group.size(); ++rank) group.peer_of(Rank{rank});
  for (std::int32_t source = 0; source < group.size(); ++source) {
    for (std::int32_t peer = 0; peer < group.size(); ++peer) {
      (*this)(group.rank_of(PeerSlot{source}), group.rank_of(PeerSlot{peer})) =
          plans[source]->send_count(PeerSlot{peer});
    }
  }
}

std::vector<std::int64_t> CountMatrix::send_splits(Rank source, const ProcessGroup& group) const {
  std::vector<std::int64_t> splits;
  for (const Rank peer : group.peer_order()) splits.push_back(counts_[known_place(source, peer)]);
  return splits;
}

std::vector<std::int64_t> CountMatrix::recv_splits(Rank destination,
                                                   const ProcessGroup& group) const {
  std::vector<std::int64_t> splits;
  for (const Rank peer : group.peer_order()) {
    splits.push_back(counts_[known_place(peer, destination)]);
  }
  return splits;
}

std::size_t CountMatrix::known_place(Rank source, Rank destination) const {
  for (const Rank rank : {source, destination}) {
    if (rank.value >= 0 && rank.value < ranks_) continue;
    throw Error(Code::RankOutsideGroup)
        .at("rank", rank)
        .expected(fmt::format("a rank in [0, {})", ranks_))
        .found(rank);
  }
  return place(source, destination);
}

FlatLedger flat_ledger(const CountMatrix& counts, const Topology& topology,
                       std::int64_t row_bytes) {
  require_ranks(counts, topology);
  FlatLedger ledger;
  for_each_pair(counts, [&](Rank source, Rank destination, std::int64_t rows) {
    const RouteClass kind = classify(topology, source, destination);
    if (kind == RouteClass::same_gpu) {
      ledger.same_gpu += Rows{rows};
      return;
    }
    PathLedger& path = kind == RouteClass::different_node ? ledger.inter : ledger.intra;
    path.rows += Rows{rows};
    path.pairs.emplace_back(source, destination);
  });
  for (PathLedger* path : {&ledger.intra, &ledger.inter}) {
    path->dispatch = bytes_of(path->rows, row_bytes);
    path->round_trip = bytes_of(path->rows, row_bytes, 2);
  }
  return ledger;
}

CountMatrix relay_stage(const CountMatrix& counts, const Topology& topology,
                        std::span<const Rank> relays, RelayStage stage) {
  require_ranks(counts, topology);
  CountMatrix moved(counts.ranks());
  for_each_pair(counts, [&](Rank source, Rank destination, std::int64_t rows) {
    for (const Hop& hop : relay_hops(topology, relays, source, destination)) {
      if (hop.stage == stage) moved(hop.from, hop.to) += rows;
    }
  });
  return moved;
}

RelayLedger relay_ledger(const CountMatrix& counts, const Topology& topology,
                         std::span<const Rank> relays, std::int64_t row_bytes) {
  check_relays(topology, relays);
  RelayLedger ledger;
  std::vector<RankPair> between;
  for (std::size_t i = 0; i < ledger.dispatch.size(); ++i) {
    const auto stage = static_cast<RelayStage>(i);
    RelayLedger::Stage& out = ledger.dispatch[i];
    for_each_pair(relay_stage(counts, topology, relays, stage),
                  [&](Rank from, Rank to, std::int64_t rows) {
                    out.rows += Rows{rows};
                    if (stage == RelayStage::relay_to_relay) between.emplace_back(from, to);
                  });
    out.bytes = bytes_of(out.rows, row_bytes);
    ledger.combine[ledger.combine.size() - 1 - i] = out;
    if (stage == RelayStage::relay_to_relay) {
      ledger.inter_round_trip = bytes_of(out.rows, row_bytes, 2);
    } else {
      ledger.added += out.rows + out.rows;
    }
  }
  ledger.added_bytes = bytes_of(ledger.added, row_bytes);
  ledger.pairs = both_ways(between);
  return ledger;
}

std::vector<RankPair> both_ways(std::span<const RankPair> pairs) {
  std::set<RankPair> directed;
  for (const auto& [from, to] : pairs) {
    directed.emplace(from, to);
    directed.emplace(to, from);
  }
  return {directed.begin(), directed.end()};
}

}  // namespace waybill
