#include <fmt/format.h>

#include "waybill/error.h"
#include "waybill/placement.h"

namespace waybill {
namespace {

void require_slot(SlotId slot, const Placement& placement) {
  if (slot.value < 0 || slot.value >= placement.slots()) {
    throw Error(Code::SlotOutsideReplicaSet)
        .at("placement", placement.version())
        .expected(fmt::format("a slot in [0, {})", placement.slots()))
        .found(slot);
  }
}

}  // namespace

void check_compatible(ExpertId expert, const CheckpointVersion& checkpoint, SlotId slot,
                      const Placement& placement, const ProcessGroup& group,
                      const Topology& topology) {
  require_slot(slot, placement);
  const Slot& candidate = placement.slot(slot);
  const auto mismatch = [&](Code code) {
    return Error(code)
        .at("placement", placement.version())
        .at("slot", candidate.name)
        .at("rank", candidate.rank);
  };

  if (candidate.expert != expert) {
    throw mismatch(Code::LogicalExpertMismatch).expected(expert).found(candidate.expert);
  }
  const bool stated = !checkpoint.value.empty() && !candidate.checkpoint.value.empty();
  if (stated && candidate.checkpoint != checkpoint) {
    throw mismatch(Code::CheckpointMismatch).expected(checkpoint).found(candidate.checkpoint);
  }
  if (!group.contains(candidate.rank)) {
    throw mismatch(Code::RankOutsideGroup)
        .expected(fmt::format("a member of {}", group.id().value))
        .found(candidate.rank);
  }
  if (candidate.domain.empty()) return;
  if (candidate.rank.value >= topology.ranks()) {
    throw mismatch(Code::DomainRankMismatch)
        .expected(fmt::format("a rank of {} that owns it", candidate.domain))
        .found("a rank outside the topology");
  }
  const std::string& owner = topology.node_name(topology.node_of(candidate.rank));
  if (candidate.domain != owner) {
    throw mismatch(Code::DomainRankMismatch).expected(owner).found(candidate.domain);
  }
}

void check_cardinality(RouteId route, ExpertId expert, std::span<const SlotId> assigned,
                       const Placement& placement) {
  const auto mismatch = [&](Code code) {
    return Error(code).at("placement", placement.version()).at("route", route).at("expert", expert);
  };
  if (assigned.size() != 1) {
    throw mismatch(assigned.empty() ? Code::ReplicaCardinalityZero
                                    : Code::ReplicaCardinalityMultiple)
        .expected("one slot")
        .found(assigned.size());
  }
  require_slot(assigned.front(), placement);
  const Slot& slot = placement.slot(assigned.front());
  if (slot.expert != expert) {
    throw mismatch(Code::SlotOutsideReplicaSet)
        .at("slot", slot.name)
        .expected(fmt::format("a slot of expert {}", expert.value))
        .found(fmt::format("a slot of expert {}", slot.expert.value));
  }
}

}  // namespace waybill
