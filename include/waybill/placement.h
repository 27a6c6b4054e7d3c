// Which physical slot holds which logical expert, on which rank. One placement per MoE layer,
// immutable; slot counts per rank may differ. Source: reference text 0x02, 0x01D1.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/ids.h"
#include "waybill/topology.h"

namespace waybill {

// One physical slot as a manifest states it.
struct Slot {
  std::string name;              // "q1"; unique inside the placement
  ExpertId expert;               // phi(q)
  std::string replica;           // "e0-r1"; unique inside the placement
  Rank rank;                     // u(q)
  std::string domain;            // topology label, empty: not stated
  CheckpointVersion checkpoint;  // empty: not stated
  // Of the expert's state: 64 hexadecimal digits are parameter_digest() of its weights, other text
  // is a label of its maker's. Empty: not stated, by no replica of the expert.
  std::string parameter_digest;
};

// A validated slot table. Slots keep the manifest's order; SlotId is the index in it, and a rank's
// local slots stand in that order too.
class Placement {
 public:
  // Checks, each with slot and rank: DuplicateSlotId, ReplicaIdMismatch (a replica name twice),
  // LogicalExpertMismatch (id out of range), DestinationRankMismatch (rank out of range),
  // ReplicaCardinalityZero (an expert without a slot), TooManyRanks (a rank without a slot),
  // CheckpointMismatch and ParameterDigestMismatch (replicas of one expert that differ),
  // DomainRankMismatch when `topology` is given and a stated domain doesn't own the rank.
  Placement(PlacementVersion version, std::int32_t experts, std::int32_t ranks,
            std::vector<Slot> slots, const Topology* topology = nullptr);

  // Experts in ascending order in runs over the ranks, the first E mod P ranks one longer, no
  // replicas: 160 over 6 → 27,27,27,27,26,26. 0 ranks: InvalidValue; P > E: TooManyRanks.
  static Placement contiguous(PlacementVersion version, std::int32_t experts, std::int32_t ranks);
  // slot_to_expert[r] lists the experts of rank r's slots in local order.
  static Placement from_lists(PlacementVersion version, std::int32_t experts,
                              std::span<const std::vector<std::int32_t>> slot_to_expert);

  const PlacementVersion& version() const { return version_; }
  std::int32_t experts() const { return experts_; }
  std::int32_t ranks() const { return static_cast<std::int32_t>(local_.size()); }
  std::int32_t slots() const { return static_cast<std::int32_t>(slots_.size()); }

  const Slot& slot(SlotId q) const { return slots_[q.index()]; }
  ExpertId expert_of(SlotId q) const { return slots_[q.index()].expert; }
  Rank rank_of(SlotId q) const { return slots_[q.index()].rank; }
  ReplicaId replica_of(SlotId q) const { return replica_[q.index()]; }
  // rho(e): the slots of an expert, in manifest order.
  std::span<const SlotId> replicas(ExpertId e) const { return replicas_[e.index()]; }
  // A rank's slots in local order.
  std::span<const SlotId> slots_on(Rank rank) const { return local_[rank.index()]; }
  // Position of a slot among its rank's slots.
  std::int32_t local_index(SlotId q) const { return local_index_[q.index()]; }

 private:
  PlacementVersion version_;
  std::int32_t experts_ = 0;
  std::vector<Slot> slots_;
  std::vector<ReplicaId> replica_;
  std::vector<std::int32_t> local_index_;
  std::vector<std::vector<SlotId>> replicas_, local_;
};

// The compatibility predicate of 0x01D1 for a route that names `expert`; a checkpoint or a domain
// that isn't stated agrees with any. Throws
// LogicalExpertMismatch, CheckpointMismatch, RankOutsideGroup or DomainRankMismatch with slot and
// rank; returns when the slot may run the route. A layer asks it of every slot of a generation that
// it first uses.
void check_compatible(ExpertId expert, const CheckpointVersion& checkpoint, SlotId slot,
                      const Placement& placement, const ProcessGroup& group,
                      const Topology& topology);

// Exactly one slot of the expert's replica set per accepted route: ReplicaCardinalityZero,
// ReplicaCardinalityMultiple, SlotOutsideReplicaSet. `assigned` holds the slots given to one route.
void check_cardinality(RouteId route, ExpertId expert, std::span<const SlotId> assigned,
                       const Placement& placement);

// All layers of one model generation. Layers are keyed by model layer index; immutable once made.
struct Generation {
  PlacementVersion version;
  std::uint64_t number = 0;
  CheckpointVersion checkpoint;
  ProcessGroupId group;
  std::map<LayerId, std::shared_ptr<const Placement>> layers;

  // InvalidValue, with the layer, when it has none.
  const Placement& layer(LayerId id) const;
};

// Placement manifest as JSON text: the schema of docs/placement-manifest.md, which also reads the
// key names of reference text 0x02B2. `file` names the source in errors. `layers` are the model's
// MoE layers: a manifest without layers applies to all of them. The declared rank count must be
// `ranks` (RankCountMismatch), the expert count `experts` (LogicalCountMismatch).
Generation parse_placement_manifest(std::string_view json, std::string_view file,
                                    std::int32_t experts, std::int32_t ranks,
                                    std::span<const LayerId> layers,
                                    const Topology* topology = nullptr);
Generation read_placement_manifest(const std::string& path, std::int32_t experts,
                                   std::int32_t ranks, std::span<const LayerId> layers,
                                   const Topology* topology = nullptr);
// The manifest text of a generation; reads back to an equal one.
std::string placement_manifest(const Generation& generation);

}  // namespace waybill
