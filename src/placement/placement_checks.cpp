#include "placement/placement_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "waybill/error.h"

namespace waybill {
namespace {

Error slot_error(Code code, const Slot& slot) {
  return Error(code).at("slot", slot.name).at("rank", slot.rank);
}

void check_slot_names(const std::vector<Slot>& slots, Faults& faults) {
  std::unordered_set<std::string_view> names, replicas;
  for (const Slot& slot : slots) {
    if (!names.insert(slot.name).second) {
      faults.report(slot_error(Code::DuplicateSlotId, slot)
                        .expected("a name of its own for each slot")
                        .found(slot.name));
    }
    if (!replicas.insert(slot.replica).second) {
      faults.report(slot_error(Code::ReplicaIdMismatch, slot)
                        .expected("a name of its own for each replica")
                        .found(slot.replica));
    }
  }
}

// Those of `count` ids that none of the slots has. Ids beyond the number of slots tell nothing new:
// one below is absent too. So the table of ids is never larger than the file.
template <class IdOf>
std::vector<std::size_t> absent_ids(const std::vector<Slot>& slots, std::int32_t count, IdOf id) {
  std::vector<bool> present(std::min(static_cast<std::size_t>(count), slots.size() + 1), false);
  for (const Slot& slot : slots) {
    if (id(slot) < present.size()) present[id(slot)] = true;
  }
  std::vector<std::size_t> absent;
  for (std::size_t i = 0; i < present.size(); ++i) {
    if (!present[i]) absent.push_back(i);
  }
  return absent;
}

void check_cover(const PlacementVersion& version, std::int32_t experts, std::int32_t ranks,
                 const std::vector<Slot>& slots, Faults& faults) {
  const auto lacking = [&](Code code, std::string_view coordinate, std::size_t id) {
    faults.report(Error(code)
                      .at("placement", version)
                      .at(coordinate, id)
                      .expected("at least one slot")
                      .found("none"));
  };
  for (const std::size_t expert :
       absent_ids(slots, experts, [](const Slot& slot) { return slot.expert.index(); })) {
    lacking(Code::ReplicaCardinalityZero, "expert", expert);
  }
  for (const std::size_t rank :
       absent_ids(slots, ranks, [](const Slot& slot) { return slot.rank.index(); })) {
    lacking(Code::TooManyRanks, "rank", rank);
  }
}

// Replicas of one expert hold one state. Where one of them states a digest, a replica without one
// would be taken for equal on its name alone (0x02B2).
void check_replicas_agree(const std::vector<Slot>& slots, std::int32_t experts, Faults& faults) {
  const auto text = [](const std::string& label) {
    return label.empty() ? std::string("none") : label;
  };
  std::vector<const Slot*> first(std::min(static_cast<std::size_t>(experts), slots.size()));
  for (const Slot& slot : slots) {
    if (slot.expert.index() >= first.size()) continue;  // negative ones too
    const Slot*& reference = first[slot.expert.index()];
    if (reference == nullptr) reference = &slot;
    const auto disagree = [&](Code code, const std::string& expected, const std::string& found) {
      if (found == expected) return;
      faults.report(slot_error(code, slot)
                        .at("expert", slot.expert)
                        .expected(text(expected))
                        .found(text(found)));
    };
    disagree(Code::CheckpointMismatch, reference->checkpoint.value, slot.checkpoint.value);
    disagree(Code::ParameterDigestMismatch, reference->parameter_digest, slot.parameter_digest);
  }
}

void check_domains(const std::vector<Slot>& slots, std::int32_t ranks, const Topology& topology,
                   Faults& faults) {
  if (topology.ranks() < ranks) {
    faults.report(Error(Code::RankCountMismatch)
                      .at("field", "topology")
                      .expected(fmt::format("at least {} ranks", ranks))
                      .found(topology.ranks()));
    return;
  }
  for (const Slot& slot : slots) {
    if (slot.rank.index() >= static_cast<std::size_t>(ranks)) continue;
    const std::string& owner = topology.node_name(topology.node_of(slot.rank));
    if (!slot.domain.empty() && slot.domain != owner) {
      faults.report(slot_error(Code::DomainRankMismatch, slot).expected(owner).found(slot.domain));
    }
  }
}

}  // namespace

bool check_counts(std::int32_t experts, std::int32_t ranks, std::size_t slots, Faults& faults) {
  if (experts < 1) {
    faults.report(
        Error(Code::InvalidValue).at("field", "experts").expected("at least 1").found(experts));
    return false;
  }
  if (ranks < 1) {
    faults.report(
        Error(Code::InvalidValue).at("field", "ranks").expected("at least 1").found(ranks));
    return false;
  }
  if (std::cmp_greater(ranks, slots)) {
    faults.report(Error(Code::TooManyRanks)
                      .at("ranks", ranks)
                      .expected("at least as many slots as ranks")
                      .found(slots));
    return false;
  }
  return true;
}

bool check_slot_ids(const std::vector<Slot>& slots, std::int32_t experts, std::int32_t ranks,
                    Faults& faults) {
  bool in_range = true;
  for (const Slot& slot : slots) {
    if (slot.expert.value < 0 || slot.expert.value >= experts) {
      in_range = false;
      faults.report(slot_error(Code::LogicalExpertMismatch, slot)
                        .expected(fmt::format("an expert in [0, {})", experts))
                        .found(slot.expert));
    }
    if (slot.rank.value < 0 || slot.rank.value >= ranks) {
      in_range = false;
      faults.report(slot_error(Code::DestinationRankMismatch, slot)
                        .expected(fmt::format("a rank in [0, {})", ranks))
                        .found(slot.rank));
    }
  }
  return in_range;
}

void check_slots(const PlacementVersion& version, std::int32_t experts, std::int32_t ranks,
                 const std::vector<Slot>& slots, bool ids_in_range, const Topology* topology,
                 Faults& faults) {
  check_slot_names(slots, faults);
  if (ids_in_range) check_cover(version, experts, ranks, slots, faults);
  check_replicas_agree(slots, experts, faults);
  if (topology != nullptr) check_domains(slots, ranks, *topology, faults);
}

}  // namespace waybill
