#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>

#include "placement/manifest_checks.h"
#include "placement/slot_names.h"
#include "waybill/placement.h"

namespace waybill {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Slot> slots_of(const Placement& placement) {
  std::vector<Slot> slots;
  slots.reserve(static_cast<std::size_t>(placement.slots()));
  for (std::int32_t q = 0; q < placement.slots(); ++q) slots.push_back(placement.slot(SlotId{q}));
  return slots;
}

bool same_slot(const Slot& a, const Slot& b) {
  return a.name == b.name && a.expert == b.expert && a.replica == b.replica && a.rank == b.rank &&
         a.domain == b.domain && a.checkpoint == b.checkpoint &&
         a.parameter_digest == b.parameter_digest;
}

bool same_placement(const Placement& a, const Placement& b) {
  return a.experts() == b.experts() && a.ranks() == b.ranks() &&
         std::ranges::equal(slots_of(a), slots_of(b), same_slot);
}

// Whether the slots stand in rank order and say nothing that a list of experts per rank doesn't.
bool is_plain(const std::vector<Slot>& slots, const CheckpointVersion& checkpoint) {
  if (!std::ranges::is_sorted(slots, {}, &Slot::rank)) return false;
  std::vector<Slot> plain(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    plain[i].expert = slots[i].expert;
    plain[i].rank = slots[i].rank;
    plain[i].checkpoint = checkpoint;
  }
  name_unnamed(plain);
  return std::ranges::equal(slots, plain, same_slot);
}

std::vector<Json> experts_by_rank(const Placement& placement) {
  std::vector<Json> lists;
  for (std::int32_t rank = 0; rank < placement.ranks(); ++rank) {
    Json& list = lists.emplace_back(Json::array());
    for (SlotId q : placement.slots_on(Rank{rank})) list.push_back(placement.expert_of(q).value);
  }
  return lists;
}

std::vector<Json> slot_rows(const std::vector<Slot>& slots) {
  std::vector<Json> rows;
  for (const Slot& slot : slots) {
    Json& row = rows.emplace_back(Json{{"physical_slot_id", slot.name},
                                       {"logical_expert_id", slot.expert.value},
                                       {"replica_id", slot.replica},
                                       {"destination_rank", slot.rank.value},
                                       {"checkpoint_version", slot.checkpoint.value}});
    if (!slot.domain.empty()) row["topology_domain_id"] = slot.domain;
    if (!slot.parameter_digest.empty()) row["parameter_digest"] = slot.parameter_digest;
  }
  return rows;
}

std::string quoted(const std::string& text) { return Json(text).dump(); }

// A member whose value is a list, an element a line, so that a diff shows what moved.
std::string table(const Placement& placement, const CheckpointVersion& checkpoint) {
  const std::vector<Slot> slots = slots_of(placement);
  const bool plain = is_plain(slots, checkpoint);
  const std::vector<Json> rows = plain ? experts_by_rank(placement) : slot_rows(slots);
  std::string text = plain ? "\"experts_by_rank\": [" : "\"slots\": [";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += (i == 0 ? "\n  " : ",\n  ") + rows[i].dump();
  }
  return text + "\n ]";
}

std::string layer_list(const Generation& generation) {
  std::string text = "\"layers\": [";
  for (const auto& [id, placement] : generation.layers) {
    if (text.back() == '}') text += ',';
    text +=
        fmt::format("\n {{\"layer\": {}, {}}}", id.value, table(*placement, generation.checkpoint));
  }
  return text + "\n ]";
}

}  // namespace

std::string placement_manifest(const Generation& generation) {
  assert(!generation.layers.empty());
  const Placement& first = *generation.layers.begin()->second;
  const bool one_for_all = std::ranges::all_of(
      generation.layers, [&](const auto& entry) { return same_placement(*entry.second, first); });
  return fmt::format(
      "{{\n \"schema\": \"{}\",\n \"placement_version\": {},\n \"generation\": {},\n "
      "\"process_group_id\": {},\n"
      " \"checkpoint_version\": {},\n \"logical_experts\": {},\n \"ranks\": {},\n {}\n}}\n",
      placement_schema, quoted(generation.version.value), generation.number,
      quoted(generation.group.value), quoted(generation.checkpoint.value), first.experts(),
      first.ranks(), one_for_all ? table(first, generation.checkpoint) : layer_list(generation));
}

}  // namespace waybill
