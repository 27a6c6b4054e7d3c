#include "plan/cuda/plan_tables.h"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "plan/table_checks.h"
#include "waybill/error.h"

namespace waybill {
namespace {

constexpr std::int32_t kNone = -1;

// Send keys: slots by (peer slot of their rank, local index).
struct Keys {
  std::vector<std::int32_t> slot, of_slot, peer_first;
};

Keys order_keys(const Placement& placement, const ProcessGroup& group) {
  Keys keys;
  keys.of_slot.assign(static_cast<std::size_t>(placement.slots()), kNone);
  for (const Rank rank : group.peer_order()) {
    keys.peer_first.push_back(static_cast<std::int32_t>(keys.slot.size()));
    if (rank.value >= placement.ranks()) continue;
    for (const SlotId slot : placement.slots_on(rank)) {
      keys.of_slot[slot.index()] = static_cast<std::int32_t>(keys.slot.size());
      keys.slot.push_back(slot.value);
    }
  }
  keys.peer_first.push_back(static_cast<std::int32_t>(keys.slot.size()));
  for (std::int32_t q = 0; q < placement.slots(); ++q) {
    if (keys.of_slot[static_cast<std::size_t>(q)] != kNone) continue;
    throw Error(Code::RankOutsideGroup).at("slot", q).at("rank", placement.rank_of(SlotId{q}));
  }
  return keys;
}

}  // namespace

DevicePlanTables::DevicePlanTables(const SelectionTable& table, const Placement& placement,
                                   const ProcessGroup& group, Rank source, std::int32_t topk,
                                   Device device)
    : device_(device), placement_(placement.version()) {
  check_columns(table, placement.experts());
  const Keys keys = order_keys(placement, group);
  const std::size_t candidates = table.candidates.size();
  std::vector<std::int32_t> candidate_key(candidates), quota_end(candidates);
  std::vector<std::int32_t> first_turn(static_cast<std::size_t>(placement.experts()));
  std::vector<std::int32_t> key_candidate(keys.slot.size(), kNone), key_expert(keys.slot.size());
  for (std::size_t key = 0; key < keys.slot.size(); ++key) {
    key_expert[key] = placement.expert_of(SlotId{keys.slot[key]}).value;
  }
  for (std::int32_t e = 0; e < placement.experts(); ++e) {
    const auto expert = static_cast<std::size_t>(e);
    const auto first = static_cast<std::size_t>(table.offsets[expert]);
    const auto end = static_cast<std::size_t>(table.offsets[expert + 1]);
    if (first == end && table.rule == SelectionRule::hashed) {
      throw Error(Code::ReplicaCardinalityZero).at("expert", e);
    }
    if (first != end && table.rule == SelectionRule::cyclic) {
      const std::int64_t turns = static_cast<std::int64_t>(end - first);
      first_turn[expert] = static_cast<std::int32_t>(table.ordinal_base[expert] % turns);
    }
    std::int64_t highest = 0;
    for (std::size_t i = first; i < end; ++i) {
      const SlotId slot = table.candidates[i];
      if (slot.value < 0 || slot.value >= placement.slots() ||
          placement.expert_of(slot) != ExpertId{e}) {
        throw Error(Code::SlotOutsideReplicaSet).at("expert", e).at("slot", slot);
      }
      const std::int32_t key = keys.of_slot[slot.index()];
      std::int32_t& position = key_candidate[static_cast<std::size_t>(key)];
      if (position != kNone) throw Error(Code::DuplicateSlotId).at("expert", e).at("slot", slot);
      position = static_cast<std::int32_t>(i);
      candidate_key[i] = key;
      if (table.rule != SelectionRule::quota) continue;
      highest = std::max(highest, table.quota_end[i] - table.ordinal_base[expert]);
      quota_end[i] = static_cast<std::int32_t>(
          std::min<std::int64_t>(highest, std::numeric_limits<std::int32_t>::max()));
    }
  }

  std::vector<std::int32_t> all;
  std::vector<std::size_t> starts;
  for (const std::span<const std::int32_t> column :
       {std::span<const std::int32_t>(table.offsets), std::span<const std::int32_t>(candidate_key),
        std::span<const std::int32_t>(quota_end), std::span<const std::int32_t>(first_turn),
        std::span<const std::int32_t>(key_candidate), std::span<const std::int32_t>(key_expert),
        std::span<const std::int32_t>(keys.slot), std::span<const std::int32_t>(keys.peer_first)}) {
    starts.push_back(all.size());
    all.insert(all.end(), column.begin(), column.end());
  }
  all.resize((all.size() + 3) / 4 * 4);  // kernels copy it in pieces of 16 bytes
  columns_ = DeviceArray<std::int32_t>(device, std::span<const std::int32_t>(all));
  const auto column = [&](std::size_t i) { return columns_.data() + starts[i]; };
  view_ = {.columns = columns_.data(),
           .column_ints = static_cast<std::int32_t>(all.size()),
           .experts = placement.experts(),
           .keys = placement.slots(),
           .peers = group.size(),
           .topk = topk,
           .rule = table.rule,
           .origin = source.value,
           .candidate_offsets = column(0),
           .candidate_key = column(1),
           .quota_end = column(2),
           .first_turn = column(3),
           .key_candidate = column(4),
           .key_expert = column(5),
           .key_slot = column(6),
           .peer_keys = column(7)};
}

}  // namespace waybill
