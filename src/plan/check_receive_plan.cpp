#include <fmt/format.h>

#include <string_view>

#include "waybill/error.h"
#include "waybill/plan.h"

namespace waybill {
namespace {

class ReceivePlanCheck {
 public:
  ReceivePlanCheck(const ReceiveView& plan, std::span<const std::int32_t> counts,
                   const ProcessGroup& group)
      : plan_(plan), counts_(counts), group_(group) {}

  void check_splits() const {
    std::int32_t row = 0;
    for (std::int32_t peer = 0; peer < plan_.peers; ++peer) {
      std::int32_t rows = 0;
      for (std::int32_t q = 0; q < plan_.local_slots; ++q) rows += count(peer, q);
      require(Code::RecvSplitMismatch, "recv_counts", peer, rows, plan_.recv_counts[peer]);
      require(Code::RecvSplitMismatch, "recv_offsets", peer, row, plan_.recv_offsets[peer]);
      row += rows;
    }
    require(Code::RecvSplitMismatch, "recv_offsets", plan_.peers, row,
            plan_.recv_offsets[plan_.peers]);
    require(Code::RecvSplitMismatch, "rows", 0, row, plan_.rows);
  }

  void check_offsets() const {
    std::int32_t row = 0;
    for (std::int32_t q = 0; q <= plan_.local_slots; ++q) {
      require(Code::ExpertOffsetMismatch, "expert_offsets", q, row, plan_.expert_offsets[q]);
      if (q == plan_.local_slots) break;
      for (std::int32_t peer = 0; peer < plan_.peers; ++peer) row += count(peer, q);
    }
  }

  // A slot's segment visits sources in rank order; what a source sent for the slot lies together in
  // its part of the received rows, behind what it sent for the slots before.
  void check_order() const {
    for (std::int32_t q = 0; q < plan_.local_slots; ++q) {
      std::int32_t at = plan_.expert_offsets[q];
      for (const PeerSlot source : group_.by_rank()) {
        std::int32_t received = plan_.recv_offsets[source.index()];
        for (std::int32_t before = 0; before < q; ++before) received += count(source.value, before);
        for (std::int32_t i = 0; i < count(source.value, q); ++i, ++at) {
          require(Code::ExpertOrderMismatch, "expert_order", at, received + i,
                  plan_.expert_order[at]);
        }
      }
    }
  }

  void check_inverse() const {
    for (std::int32_t row = 0; row < plan_.rows; ++row) {
      const std::int32_t received = plan_.expert_order[row];
      require(Code::InversePositionMismatch, "expert_position", received, row,
              plan_.expert_position[received]);
    }
  }

 private:
  static void require(Code code, std::string_view column, std::int32_t index, std::int32_t expected,
                      std::int32_t found) {
    if (expected == found) return;
    throw Error(code).at("column", column).at("index", index).expected(expected).found(found);
  }
  std::int32_t count(std::int32_t peer, std::int32_t slot) const {
    return counts_[static_cast<std::size_t>(peer) * plan_.local_slots + slot];
  }

  const ReceiveView& plan_;
  std::span<const std::int32_t> counts_;
  const ProcessGroup& group_;
};

}  // namespace

ReceiveView ReceivePlan::view() const {
  return {static_cast<std::int32_t>(recv_counts_.size()),
          static_cast<std::int32_t>(expert_offsets_.size()) - 1,
          rows(),
          recv_counts_.data(),
          recv_offsets_.data(),
          expert_offsets_.data(),
          expert_order_.data(),
          expert_position_.data()};
}

void check_receive_plan(const ReceiveView& plan, std::span<const std::int32_t> counts,
                        std::int32_t local_slots, const ProcessGroup& group) {
  if (plan.peers != group.size()) {
    throw Error(Code::GroupShapeMismatch).expected(group.size()).found(plan.peers);
  }
  if (plan.local_slots != local_slots ||
      static_cast<std::int64_t>(counts.size()) != std::int64_t{group.size()} * local_slots) {
    throw Error(Code::SlotCountMismatch)
        .expected(fmt::format("{} local slots, {} counts", local_slots,
                              std::int64_t{group.size()} * local_slots))
        .found(fmt::format("{} local slots, {} counts", plan.local_slots, counts.size()));
  }
  const ReceivePlanCheck check(plan, counts, group);
  check.check_splits();
  check.check_offsets();
  check.check_order();
  check.check_inverse();
}

}  // namespace waybill
