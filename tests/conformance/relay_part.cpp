#include "conformance/relay_part.h"

#include <algorithm>
#include <array>
#include <optional>

namespace waybill::conformance {
namespace {

constexpr auto relay_code = Code::RelayLedgerMismatch;

// The group whose communicator carries a stage's rows from `from`.
const GroupRecord& group_of(const RelayPart& part, RelayStage stage, Rank from) {
  const std::string& node = part.topology.node_name(part.topology.node_of(from));
  for (const GroupRecord& group : part.groups) {
    const bool carries = stage == RelayStage::relay_to_relay
                             ? group.kind == GroupKind::relays
                             : group.kind == GroupKind::node_local && group.node == node;
    if (carries) return group;
  }
  throw Error(Code::GroupShapeMismatch).at("stage", stage).expected("a group that carries it");
}

void expect_stage(const RelayPart& part, const Value& list, std::size_t index,
                  std::string_view name, const RelayLedger::Stage& derived) {
  const auto stages = list.elements();
  part.check.report.expect_that(stages.size() == 3, relay_code, list, 3);
  if (index >= stages.size()) return;
  part.check.report.expect(stages[index], "stage", name, {relay_code});
  part.check.report.expect(stages[index], "rows", derived.rows.value, {relay_code});
  part.check.report.expect(stages[index], "bytes", derived.bytes.value, {relay_code});
}

// A count of directed pairs over a round trip: the pairs themselves, or each once a direction. The
// two differ only where rows go both ways between two ranks, and sets use either.
void expect_pairs(const RelayPart& part, std::string_view key, std::size_t distinct,
                  std::size_t one_way) {
  const Value stated = part.stated.at(key);
  if (stated.json() == 2 * one_way) return;
  part.check.report.expect(stated, distinct, {relay_code});
}

}  // namespace

Json pairs_of(const std::vector<RankPair>& pairs) {
  Json list = Json::array();
  for (const auto& [from, to] : pairs) list.push_back({from.value, to.value});
  return list;
}

void check_relay_ledger(const RelayPart& part, const FlatLedger& flat, std::int64_t row_bytes) {
  const RelayLedger ledger = relay_ledger(part.counts, part.topology, part.relays, row_bytes);
  constexpr std::array<std::string_view, 3> back{"expert_to_expert_relay", "relay_to_relay",
                                                 "origin_relay_to_origin"};
  for (std::size_t i = 0; i < back.size(); ++i) {
    expect_stage(part, part.stated.at("dispatch"), i, name(static_cast<RelayStage>(i)),
                 ledger.dispatch[i]);
    expect_stage(part, part.stated.at("combine"), i, back[i], ledger.combine[i]);
  }
  Report& report = part.check.report;
  report.expect(part.stated, "inter_round_trip_bytes", ledger.inter_round_trip.value,
                {Code::PayloadReductionAssumed});
  report.expect(part.stated, "added_relay_moves", ledger.added.value, {relay_code});
  report.expect(part.stated, "added_relay_bytes", ledger.added_bytes.value, {relay_code});
  report.expect(part.stated, "pairs", pairs_of(ledger.pairs), {relay_code});
  const CountMatrix between =
      relay_stage(part.counts, part.topology, part.relays, RelayStage::relay_to_relay);
  const Topology apart = Topology::uniform(part.topology.ranks(), part.topology.ranks());
  expect_pairs(part, "inter_directed_pairs", ledger.pairs.size(),
               flat_ledger(between, apart, row_bytes).inter.pairs.size());
  expect_pairs(part, "flat_inter_directed_pairs", both_ways(flat.inter.pairs).size(),
               flat.inter.pairs.size());
}

void check_relay_route(const RelayPart& part, const std::string& route, Rank source,
                       Rank destination) {
  Report& report = part.check.report;
  const auto stated = part.stated.at("routes").find(route);
  if (!stated) {
    report.violation(relay_code, part.stated.at("routes"), "route " + route, "no such member");
    return;
  }
  report.expect(*stated, "source_rank", source.value, {relay_code});
  report.expect(*stated, "final_rank", destination.value, {Code::StageChangesFinalRank});
  Json hops = Json::array();
  for (const Hop& hop : relay_hops(part.topology, part.relays, source, destination)) {
    hops.push_back({{"stage", name(hop.stage)},
                    {"from", hop.from.value},
                    {"to", hop.to.value},
                    {"group", group_of(part, hop.stage, hop.from).id.value}});
  }
  report.expect(*stated, "hops", hops, {relay_code});
  const auto last = stated->at("hops").elements();
  if (last.empty()) return;
  report.expect(last.back(), "to", destination.value, {Code::StageChangesFinalRank});
}

// "<group> gather", "<group> exchange", "<group> scatter": what each member of the group sends, in
// the group's peer order; only groups that move rows.
void check_relay_splits(const RelayPart& part) {
  constexpr std::array<std::string_view, 3> verbs{"gather", "exchange", "scatter"};
  Json derived = Json::object();
  for (std::size_t i = 0; i < verbs.size(); ++i) {
    const auto stage = static_cast<RelayStage>(i);
    const CountMatrix moved = relay_stage(part.counts, part.topology, part.relays, stage);
    for (const GroupRecord& group : part.groups) {
      const bool local = group.kind == GroupKind::node_local;
      if (group.kind == GroupKind::full_ep || local == (stage == RelayStage::relay_to_relay)) {
        continue;
      }
      const ProcessGroup members(group.id, group.epoch, group.peer_order);
      Json splits = Json::object();
      std::int64_t rows = 0;
      for (const Rank rank : group.peer_order) {
        const std::vector<std::int64_t> sent = moved.send_splits(rank, members);
        for (const std::int64_t count : sent) rows += count;
        splits[std::to_string(rank.value)] = sent;
      }
      if (rows > 0) derived[group.id.value + " " + std::string(verbs[i])] = splits;
    }
  }
  const Value stated = part.stated.at("group_splits");
  part.check.report.expect(stated, derived, {relay_code, Code::SplitVectorMismatch});
}

}  // namespace waybill::conformance
