#include <utility>

#include "plan/host_plan_builder.h"
#include "waybill/plan.h"

namespace waybill {
namespace {

template <class Choice>
void rebuild(HostPlan& plan, const RoutesView& routes, const Choice& choice,
             const Placement& placement, const ProcessGroup& group, Rank source,
             const PlanOptions& options) {
  HostPlan work = std::exchange(plan, HostPlan{});
  HostPlanBuilder(work, routes, placement, group, source, options).build(choice);
  plan = std::move(work);
}

}  // namespace

PlanView HostPlan::view() const {
  return {.tokens = tokens_,
          .topk = topk_,
          .experts = experts_,
          .slots = static_cast<std::int32_t>(key_slot_.size()),
          .peers = peers_,
          .rows = rows(),
          .slot = slot_.data(),
          .send_position = send_position_.data(),
          .send_order = send_order_.data(),
          .key_offsets = key_offsets_.data(),
          .key_slot = key_slot_.data(),
          .send_offsets = send_offsets_.data(),
          .expert_counts = expert_counts_.data(),
          .status = &status_,
          .payload_offsets = dedup_ ? payload_offsets_.data() : nullptr,
          .payload_token = dedup_ ? payload_token_.data() : nullptr,
          .payload_row = dedup_ ? payload_row_.data() : nullptr};
}

std::span<const std::int32_t> HostPlan::slot_counts(PeerSlot peer) const {
  const std::int32_t begin = peer_key_offsets_[peer.index()];
  return std::span(slot_counts_).subspan(begin, peer_key_offsets_[peer.index() + 1] - begin);
}

HostPlan build_plan(const RoutesView& routes, const SelectionTable& table,
                    const Placement& placement, const ProcessGroup& group, Rank source,
                    const PlanOptions& options) {
  HostPlan plan;
  rebuild(plan, routes, table, placement, group, source, options);
  return plan;
}

HostPlan build_plan(const RoutesView& routes, std::span<const std::int32_t> assigned_slots,
                    const Placement& placement, const ProcessGroup& group, Rank source,
                    const PlanOptions& options) {
  HostPlan plan;
  rebuild(plan, routes, assigned_slots, placement, group, source, options);
  return plan;
}

void rebuild_plan(HostPlan& plan, const RoutesView& routes, const SelectionTable& table,
                  const Placement& placement, const ProcessGroup& group, Rank source,
                  const PlanOptions& options) {
  rebuild(plan, routes, table, placement, group, source, options);
}

void rebuild_plan(HostPlan& plan, const RoutesView& routes,
                  std::span<const std::int32_t> assigned_slots, const Placement& placement,
                  const ProcessGroup& group, Rank source, const PlanOptions& options) {
  rebuild(plan, routes, assigned_slots, placement, group, source, options);
}

}  // namespace waybill
