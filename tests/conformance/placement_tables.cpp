#include "conformance/placement_tables.h"

#include <fmt/format.h>

#include <algorithm>

namespace waybill::conformance {
namespace {

Json names_of(const Placement& placement, std::span<const SlotId> slots) {
  Json names = Json::array();
  for (const SlotId slot : slots) names.push_back(placement.slot(slot).name);
  return names;
}

// Expert e alone on rank e, in slot e.
void check_one_expert_a_rank(Check& check, const Value& list) {
  const auto rows = list.elements();
  const auto count = static_cast<std::int32_t>(rows.size());
  const Placement placement = Placement::contiguous(PlacementVersion("intro"), count, count);
  for (std::int32_t q = 0; q < count; ++q) {
    const Value& row = rows[static_cast<std::size_t>(q)];
    check.report.expect(row, "expert", placement.expert_of(SlotId{q}).value,
                        {Code::LogicalExpertMismatch});
    check.report.expect(row, "rank", placement.rank_of(SlotId{q}).value,
                        {Code::DestinationRankMismatch});
    check.report.expect(row, "slot", q, {Code::DuplicateSlotId});
  }
}

// A replica of expert 0 added: one slot an expert, one more for it, on another rank.
void check_one_replica(Check& check, const Value& list) {
  std::vector<Slot> slots;
  std::int32_t ranks = 0;
  for (const Value& row : list.elements()) {
    const Rank rank{row.at("rank").id()};
    const ExpertId expert{row.at("expert").id()};
    const std::size_t number = slots.size();
    check.report.expect(row, "slot", fmt::format("q{}", number), {Code::DuplicateSlotId});
    slots.push_back(
        {row.at("slot").text(), expert, fmt::format("replica-{}", number), rank, "", {}, ""});
    ranks = std::max(ranks, rank.value + 1);
  }
  const auto experts = static_cast<std::int32_t>(slots.size()) - 1;
  const Placement placement(PlacementVersion("intro"), experts, ranks, std::move(slots));
  const auto copies = placement.replicas(ExpertId{0});
  check.report.expect_that(
      copies.size() == 2 && placement.rank_of(copies[0]) != placement.rank_of(copies[1]),
      Code::ReplicaCardinalityMultiple, list, "two copies of expert 0 on two ranks");
}

}  // namespace

Json slots_by_expert(const Placement& placement) {
  Json table = Json::object();
  for (std::int32_t e = 0; e < placement.experts(); ++e) {
    table[std::to_string(e)] = names_of(placement, placement.replicas(ExpertId{e}));
  }
  return table;
}

Json slots_by_rank(const Placement& placement) {
  Json table = Json::object();
  for (std::int32_t rank = 0; rank < placement.ranks(); ++rank) {
    table[std::to_string(rank)] = names_of(placement, placement.slots_on(Rank{rank}));
  }
  return table;
}

std::optional<SlotId> slot_named(const Placement& placement, std::string_view name) {
  for (std::int32_t q = 0; q < placement.slots(); ++q) {
    if (placement.slot(SlotId{q}).name == name) return SlotId{q};
  }
  return std::nullopt;
}

void check_intro_examples(Check& check, const Value& root) {
  const auto examples = root.find("intro_examples");
  if (!examples) return;
  if (const auto list = examples->find("one_expert_one_rank")) {
    check.report.guard(*list, [&] { check_one_expert_a_rank(check, *list); });
  }
  if (const auto list = examples->find("five_slot_replica_of_E0")) {
    check.report.guard(*list, [&] { check_one_replica(check, *list); });
  }
}

}  // namespace waybill::conformance
