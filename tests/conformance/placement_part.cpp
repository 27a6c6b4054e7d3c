// placement_v17.json: the manifest, the slots of each expert and rank, the counts that the routes
// give them, and the compatibility predicate (reference text 0x01D1, 0x02B).
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "conformance/check.h"
#include "conformance/fence.h"
#include "conformance/placement_tables.h"

namespace waybill::conformance {
namespace {

// "placement-v17" names generation 17.
void check_version(Check& check, const Value& root) {
  const std::string version = root.at("placement_version").text();
  const std::size_t digits =
      version.size() -
      static_cast<std::size_t>(std::distance(
          version.rbegin(), std::find_if(version.rbegin(), version.rend(),
                                         [](unsigned char c) { return std::isdigit(c) == 0; })));
  check.report.expect(
      root.at("placement_version"),
      fmt::format("{}{}", version.substr(0, digits), root.at("generation").integer()),
      {Code::GenerationMismatch});
}

void check_header(Check& check, const Value& root) {
  Report& report = check.report;
  check_version(check, root);
  const Topology topology = read_domains(root.at("domains"));
  std::set<std::int32_t> experts;
  for (const Value& slot : root.at("slots").elements()) {
    experts.insert(slot.at("logical_expert").id());
  }
  report.expect(root, "logical_experts", experts.size(), {Code::LogicalCountMismatch});
  report.expect(root, "ranks", topology.ranks(), {Code::RankCountMismatch});
  report.expect(root, "nodes", topology.nodes(), {Code::DomainNotPartition});
  if (const auto routes = check.set.find("routes")) {
    report.expect(root, "process_group_id", routes->at("process_group").at("id").json(),
                  {Code::ProcessGroupMismatch});
    report.expect(root, "checkpoint_version", routes->at("checkpoint").json(),
                  {Code::CheckpointMismatch});
    report.expect(root, "placement_version", routes->at("placement").json(),
                  {Code::GenerationMismatch});
    report.expect(root, "logical_experts", routes->at("experts").elements().size(),
                  {Code::LogicalCountMismatch});
    report.expect(root, "ranks", routes->at("process_group").at("member_ranks").elements().size(),
                  {Code::RankCountMismatch});
  }
}

// Each slot by itself: a manifest with several faults shows each of them.
void check_slots(Check& check, const Value& root) {
  const std::string checkpoint = root.at("checkpoint_version").text();
  std::vector<std::int32_t> members;
  for (std::int32_t rank = 0; rank < root.at("ranks").integer(1, 1 << 16); ++rank) {
    members.push_back(rank);
  }
  const ProcessGroup group = process_group(root.at("process_group_id").text(), members);
  for (const Value& slot : root.at("slots").elements()) {
    check.report.guard(slot.at("rank"), [&] { group.peer_of(Rank{slot.at("rank").id()}); });
    check.report.expect(slot, "checkpoint", checkpoint, {Code::CheckpointMismatch});
    const auto owned = root.at("domains").find(slot.at("domain").text());
    const Json rank = slot.at("rank").json();
    const bool owns =
        owned && std::find(owned->json().begin(), owned->json().end(), rank) != owned->json().end();
    check.report.expect_that(owns, Code::DomainRankMismatch, slot.at("domain"),
                             fmt::format("the node of rank {}", shown(rank)));
  }
}

void check_slot_tables(Check& check, const Value& root, const Placement& placement) {
  const auto by_expert = slots_by_expert(placement);
  const auto by_rank = slots_by_rank(placement);
  check.report.expect(root, "rho", by_expert, {Code::SlotOutsideReplicaSet});
  check.report.expect(root, "slots_by_rank", by_rank,
                      {Code::LocalSlotOrderMismatch, Code::DestinationRankMismatch});
}

// Needs no placement: what the router chose is counted before any slot is.
void check_logical_counts(Check& check, const Value& root) {
  const auto routes = check.set.find("routes");
  if (!routes) return;
  std::vector<std::int32_t> chosen;
  for (const Value& route : routes->at("routes").elements()) {
    chosen.push_back(route.at("logical_expert").id());
  }
  const auto experts = static_cast<std::int32_t>(routes->at("experts").elements().size());
  const RoutesView view{static_cast<std::int32_t>(chosen.size()), 1, chosen, {}};
  check.report.expect(root.at("expected"), "logical_counts", count_experts(view, experts),
                      {Code::LogicalCountMismatch});
}

void check_placed_counts(Check& check, const Value& root) {
  const Value expected = root.at("expected");
  const Placement& placement = *check.problem->placement;
  Json slots = Json::object(), ranks = Json::object();
  for (std::int32_t q = 0; q < placement.slots(); ++q) {
    slots[placement.slot(SlotId{q}).name] = check.trace->slot_rows(SlotId{q});
  }
  for (std::int32_t rank = 0; rank < placement.ranks(); ++rank) {
    ranks[std::to_string(rank)] = check.trace->receive(rank).rows();
  }
  check.report.expect(expected, "slot_counts", slots, {Code::SlotCountMismatch});
  check.report.expect(expected, "rank_counts", ranks, {Code::RankCountMismatch});
  check.report.expect(expected, "total", check.problem->accepted(),
                      {Code::RouteConservationMismatch});
}

// Whether a slot may run a route, and the library's reason if not.
struct Compatibility {
  const Check& check;
  const Topology topology;
  const ProcessGroup group;
  CheckpointVersion checkpoint;

  std::optional<Code> refusal(const std::string& route, SlotId slot) const {
    for (const Origin& origin : check.problem->origins) {
      for (std::size_t i = 0; i < origin.ids.size(); ++i) {
        if (origin.ids[i] == route) return refusal(ExpertId{origin.experts[i]}, slot);
      }
    }
    return Code::RouteConservationMismatch;
  }
  std::optional<Code> refusal(ExpertId expert, SlotId slot) const {
    try {
      check_compatible(expert, checkpoint, slot, *check.problem->placement, group, topology);
      return std::nullopt;
    } catch (const Error& error) {
      return error.code();
    }
  }
};

void check_case(Check& check, const Value& stated, const Compatibility& compatibility) {
  const auto slot = slot_named(*check.problem->placement, stated.at("slot").text());
  const auto refusal =
      slot ? compatibility.refusal(stated.at("route").text(), *slot) : Code::SlotOutsideReplicaSet;
  const bool ok = !refusal.has_value();
  const Code code = refusal.value_or(Code::LogicalExpertMismatch);
  check.report.expect(stated, "ok", ok, {code});
  if (!ok) check.report.expect(stated, "error", name(*refusal), {code});
}

void check_predicate(Check& check, const Value& root) {
  const Value predicate = root.at("predicate");
  const Compatibility compatibility{check, read_domains(root.at("domains")), check.trace->group(),
                                    CheckpointVersion(root.at("checkpoint_version").text())};
  for (const Value& stated : predicate.at("cases").elements()) {
    check.report.guard(stated, [&] { check_case(check, stated, compatibility); });
  }
  const Placement& placement = *check.problem->placement;
  std::vector<Json> runnable;  // [E] slots that may run a route of the expert
  for (std::int32_t e = 0; e < placement.experts(); ++e) {
    Json& slots = runnable.emplace_back(Json::array());
    for (std::int32_t q = 0; q < placement.slots(); ++q) {
      if (compatibility.refusal(ExpertId{e}, SlotId{q})) continue;
      slots.push_back(placement.slot(SlotId{q}).name);
    }
  }
  Json matrix = Json::object();
  for (const Origin& origin : check.problem->origins) {
    for (std::size_t i = 0; i < origin.ids.size(); ++i) {
      if (origin.experts[i] == dropped_route) continue;
      matrix[origin.ids[i]] = runnable[static_cast<std::size_t>(origin.experts[i])];
    }
  }
  check.report.expect(predicate, "matrix_compatible_slots", matrix,
                      {Code::SlotOutsideReplicaSet, Code::LogicalExpertMismatch});
}

// The names under which the contract reports its violations.
void check_error_names(Check& check, const Value& root) {
  constexpr std::array clauses{Code::LogicalExpertMismatch, Code::CheckpointMismatch,
                               Code::RankOutsideGroup, Code::DomainRankMismatch};
  std::size_t next = 0;
  for (const Value& clause : root.at("predicate").at("clauses").elements()) {
    if (next == clauses.size()) break;
    check.report.expect(clause, "error", name(clauses[next]), {clauses[next]});
    ++next;
  }
  const Value cardinality = root.at("cardinality");
  check.report.expect(cardinality, "zero", name(Code::ReplicaCardinalityZero),
                      {Code::ReplicaCardinalityZero});
  check.report.expect(cardinality, "two", name(Code::ReplicaCardinalityMultiple),
                      {Code::ReplicaCardinalityMultiple});
  check.report.expect(cardinality, "outside", name(Code::SlotOutsideReplicaSet),
                      {Code::SlotOutsideReplicaSet});
}

}  // namespace

void check_placement(Check& check, const Value& root) {
  for (const auto part : {check_header, check_slots, check_error_names, check_logical_counts,
                          check_intro_examples, check_generation_states, check_fence}) {
    check.report.guard(root, [&] { part(check, root); });
  }
  if (check.trace == nullptr) {
    check.report.unchecked(root.file() + ": counts, which need routes that agree");
    return;
  }
  check.report.guard(root, [&] { check_slot_tables(check, root, *check.problem->placement); });
  check.report.guard(root, [&] { check_placed_counts(check, root); });
  check.report.guard(root, [&] { check_predicate(check, root); });
}

}  // namespace waybill::conformance
