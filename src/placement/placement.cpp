#include "waybill/placement.h"

#include <algorithm>
#include <utility>

#include "placement/placement_checks.h"
#include "placement/slot_names.h"

namespace waybill {

Placement::Placement(PlacementVersion version, std::int32_t experts, std::int32_t ranks,
                     std::vector<Slot> slots, const Topology* topology)
    : version_(std::move(version)), experts_(experts), slots_(std::move(slots)) {
  Faults first;
  check_counts(experts, ranks, slots_.size(), first);
  check_slot_ids(slots_, experts, ranks, first);
  check_slots(version_, experts, ranks, slots_, true, topology, first);

  replicas_.resize(static_cast<std::size_t>(experts));
  local_.resize(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const SlotId q{static_cast<std::int32_t>(i)};
    std::vector<SlotId>& copies = replicas_[slots_[i].expert.index()];
    std::vector<SlotId>& local = local_[slots_[i].rank.index()];
    replica_.emplace_back(static_cast<std::int32_t>(copies.size()));
    local_index_.push_back(static_cast<std::int32_t>(local.size()));
    copies.push_back(q);
    local.push_back(q);
  }
}

Placement Placement::contiguous(PlacementVersion version, std::int32_t experts,
                                std::int32_t ranks) {
  Faults first;
  check_counts(experts, ranks, static_cast<std::size_t>(std::max(experts, 0)), first);
  std::vector<std::vector<std::int32_t>> lists(static_cast<std::size_t>(ranks));
  std::int32_t next = 0;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    const std::int32_t end = next + experts / ranks + (rank < experts % ranks ? 1 : 0);
    while (next < end) lists[static_cast<std::size_t>(rank)].push_back(next++);
  }
  return from_lists(std::move(version), experts, lists);
}

Placement Placement::from_lists(PlacementVersion version, std::int32_t experts,
                                std::span<const std::vector<std::int32_t>> slot_to_expert) {
  std::vector<Slot> slots;
  for (std::size_t rank = 0; rank < slot_to_expert.size(); ++rank) {
    for (std::int32_t expert : slot_to_expert[rank]) {
      Slot& slot = slots.emplace_back();
      slot.expert = ExpertId{expert};
      slot.rank = Rank{static_cast<std::int32_t>(rank)};
    }
  }
  name_unnamed(slots);
  return {std::move(version), experts, static_cast<std::int32_t>(slot_to_expert.size()),
          std::move(slots)};
}

}  // namespace waybill
