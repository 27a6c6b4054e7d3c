#include "waybill/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "placement/slot_names.h"
#include "waybill/error.h"

namespace waybill {
namespace {

Error slot_error(Code code, const Slot& slot) {
  return Error(code).at("slot", slot.name).at("rank", slot.rank);
}

void check_shape(std::int32_t experts, std::int32_t ranks, std::size_t slots) {
  if (experts < 1) {
    throw Error(Code::InvalidValue).at("field", "experts").expected("at least 1").found(experts);
  }
  if (ranks < 1) {
    throw Error(Code::InvalidValue).at("field", "ranks").expected("at least 1").found(ranks);
  }
  if (std::cmp_greater(ranks, slots)) {
    throw Error(Code::TooManyRanks)
        .at("ranks", ranks)
        .expected("at least as many slots as ranks")
        .found(slots);
  }
}

void check_names(const std::vector<Slot>& slots) {
  std::unordered_set<std::string_view> names, replicas;
  for (const Slot& slot : slots) {
    if (!names.insert(slot.name).second) {
      throw slot_error(Code::DuplicateSlotId, slot)
          .expected("a name of its own for each slot")
          .found(slot.name);
    }
    if (!replicas.insert(slot.replica).second) {
      throw slot_error(Code::ReplicaIdMismatch, slot)
          .expected("a name of its own for each replica")
          .found(slot.replica);
    }
  }
}

void check_ids(const std::vector<Slot>& slots, std::int32_t experts, std::int32_t ranks) {
  for (const Slot& slot : slots) {
    if (slot.expert.value < 0 || slot.expert.value >= experts) {
      throw slot_error(Code::LogicalExpertMismatch, slot)
          .expected(fmt::format("an expert in [0, {})", experts))
          .found(slot.expert);
    }
    if (slot.rank.value < 0 || slot.rank.value >= ranks) {
      throw slot_error(Code::DestinationRankMismatch, slot)
          .expected(fmt::format("a rank in [0, {})", ranks))
          .found(slot.rank);
    }
  }
}

void check_domains(const std::vector<Slot>& slots, std::int32_t ranks, const Topology& topology) {
  if (topology.ranks() < ranks) {
    throw Error(Code::RankCountMismatch)
        .at("field", "topology")
        .expected(fmt::format("at least {} ranks", ranks))
        .found(topology.ranks());
  }
  for (const Slot& slot : slots) {
    const std::string& owner = topology.node_name(topology.node_of(slot.rank));
    if (!slot.domain.empty() && slot.domain != owner) {
      throw slot_error(Code::DomainRankMismatch, slot).expected(owner).found(slot.domain);
    }
  }
}

// Replicas of one expert hold one state. A digest that isn't stated is compared with nothing.
void check_replicas_agree(const std::vector<Slot>& slots,
                          const std::vector<std::vector<SlotId>>& replicas) {
  for (const std::vector<SlotId>& copies : replicas) {
    const Slot& first = slots[copies.front().index()];
    std::string_view digest = first.parameter_digest;
    for (SlotId q : copies) {
      const Slot& slot = slots[q.index()];
      if (slot.checkpoint != first.checkpoint) {
        throw slot_error(Code::CheckpointMismatch, slot)
            .at("expert", slot.expert)
            .expected(first.checkpoint)
            .found(slot.checkpoint);
      }
      if (digest.empty()) digest = slot.parameter_digest;
      if (!slot.parameter_digest.empty() && slot.parameter_digest != digest) {
        throw slot_error(Code::ParameterDigestMismatch, slot)
            .at("expert", slot.expert)
            .expected(digest)
            .found(slot.parameter_digest);
      }
    }
  }
}

}  // namespace

Placement::Placement(PlacementVersion version, std::int32_t experts, std::int32_t ranks,
                     std::vector<Slot> slots, const Topology* topology)
    : version_(std::move(version)), experts_(experts), slots_(std::move(slots)) {
  check_shape(experts, ranks, slots_.size());
  check_names(slots_);
  check_ids(slots_, experts, ranks);

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

  for (std::size_t e = 0; e < replicas_.size(); ++e) {
    if (replicas_[e].empty()) {
      throw Error(Code::ReplicaCardinalityZero)
          .at("placement", version_)
          .at("expert", e)
          .expected("at least one slot")
          .found("none");
    }
  }
  for (std::size_t rank = 0; rank < local_.size(); ++rank) {
    if (local_[rank].empty()) {
      throw Error(Code::TooManyRanks)
          .at("placement", version_)
          .at("rank", rank)
          .expected("at least one slot")
          .found("none");
    }
  }
  check_replicas_agree(slots_, replicas_);
  if (topology != nullptr) check_domains(slots_, ranks, *topology);
}

Placement Placement::contiguous(PlacementVersion version, std::int32_t experts,
                                std::int32_t ranks) {
  check_shape(experts, ranks, static_cast<std::size_t>(std::max(experts, 0)));
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
