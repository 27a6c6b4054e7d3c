// check_receive_plan() takes what the library builds and names what anyone changed in it.
#include <gtest/gtest.h>

#include <vector>

#include "property/property.h"
#include "support/fault.h"
#include "waybill/plan.h"

namespace waybill::testing {
namespace {

using Counts = std::vector<std::int32_t>;

// Three peers in another order than their ranks, two local slots.
struct Received {
  ProcessGroup group{ProcessGroupId("g"), GroupEpoch{0}, {Rank{2}, Rank{0}, Rank{1}}};
  Counts counts{1, 2, 0, 3, 2, 1};  // [P, Q_local]
  ReceivePlan plan = build_receive_plan(counts, 2, group);

  Code refusal(const ReceiveView& view) const {
    return fault([&] { check_receive_plan(view, counts, 2, group); }).code();
  }
};

Counts changed(std::span<const std::int32_t> column, std::size_t index) {
  Counts copy(column.begin(), column.end());
  ++copy[index];
  return copy;
}

TEST(CheckReceivePlan, EachColumnHasItsCode) {
  const Received r;
  const ReceiveView right = r.plan.view();
  EXPECT_NO_THROW(check_receive_plan(right, r.counts, 2, r.group));
  ReceiveView wrong = right;
  const Counts counts = changed(r.plan.recv_counts(), 1);
  wrong.recv_counts = counts.data();
  EXPECT_EQ(r.refusal(wrong), Code::RecvSplitMismatch);
  wrong = right;
  const Counts offsets = changed(r.plan.recv_offsets(), 3);
  wrong.recv_offsets = offsets.data();
  EXPECT_EQ(r.refusal(wrong), Code::RecvSplitMismatch);
  wrong = right;
  const Counts segments = changed(r.plan.expert_offsets(), 2);
  wrong.expert_offsets = segments.data();
  EXPECT_EQ(r.refusal(wrong), Code::ExpertOffsetMismatch);
  wrong = right;
  const Counts positions = changed(r.plan.expert_position(), 0);
  wrong.expert_position = positions.data();
  EXPECT_EQ(r.refusal(wrong), Code::InversePositionMismatch);
}

TEST(CheckReceivePlan, RowsAsTheyArriveAreNotExpertMajor) {
  const Received r;
  Counts arrival;
  for (std::int32_t row = 0; row < r.plan.rows(); ++row) arrival.push_back(row);
  ReceiveView wrong = r.plan.view();
  wrong.expert_order = arrival.data();
  EXPECT_EQ(r.refusal(wrong), Code::ExpertOrderMismatch);
}

TEST(CheckReceivePlan, EveryPeerKeepsItsAxis) {
  const Received r;
  ReceiveView wrong = r.plan.view();
  wrong.peers = 2;
  EXPECT_EQ(r.refusal(wrong), Code::GroupShapeMismatch);
  wrong = r.plan.view();
  wrong.local_slots = 3;
  EXPECT_EQ(r.refusal(wrong), Code::SlotCountMismatch);
}

PROPERTY(CheckReceivePlan, TakesEveryPlanThatIsBuilt) {
  const std::int32_t peers = property::draw(1, 6), slots = property::draw(0, 5);
  const Counts counts =
      property::draw_integers<std::int32_t>(static_cast<std::size_t>(peers * slots), 0, 4);
  const ProcessGroup group = ProcessGroup::identity(peers);
  check_receive_plan(build_receive_plan(counts, slots, group).view(), counts, slots, group);
}

}  // namespace
}  // namespace waybill::testing
