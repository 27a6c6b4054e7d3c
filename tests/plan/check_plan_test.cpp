// One column of a right plan is changed; check_plan names the contract that it breaks.
#include <gtest/gtest.h>

#include <numeric>

#include "plan/shape_generator.h"
#include "property/property.h"
#include "support/fault.h"

namespace waybill::testing {
namespace {

PROPERTY(CheckedPlan, AcceptsWhatBuildPlanMakes) {
  const Shape shape = draw_shape();
  const bool dedup = property::draw_bool();
  const RoutingCase c = make_case(shape);
  check_plan(build_plan(c.routes, c.table, c.placement, c.group, c.source, {.dedup = dedup}),
             c.routes, c.placement, c.group);
}

// Columns that can be changed, behind the view of a right plan.
class CheckPlan : public ::testing::Test {
 protected:
  CheckPlan() {
    const HostPlan plan = build_plan(case_.routes, case_.table, case_.placement, case_.group,
                                     case_.source, {.dedup = true});
    const auto copy = [](std::span<const std::int32_t> column) {
      return std::vector<std::int32_t>(column.begin(), column.end());
    };
    view_ = plan.view();
    view_.slot = (slot_ = copy(plan.slot())).data();
    view_.send_position = (send_position_ = copy(plan.send_position())).data();
    view_.send_order = (send_order_ = copy(plan.send_order())).data();
    view_.key_offsets = (key_offsets_ = copy(plan.key_offsets())).data();
    view_.key_slot = (key_slot_ = copy(plan.key_slot())).data();
    view_.send_offsets = (send_offsets_ = copy(plan.send_offsets())).data();
    view_.expert_counts = (expert_counts_ = copy(plan.expert_counts())).data();
    view_.payload_offsets = (payload_offsets_ = copy(plan.payload_offsets())).data();
    view_.payload_token = (payload_token_ = copy(plan.payload_token())).data();
    view_.payload_row = (payload_row_ = copy(plan.payload_row())).data();
  }

  Code violation() {
    return fault([this] { check_plan(view_, case_.routes, case_.placement, case_.group); }).code();
  }

  // Enough routes that every slot and peer has several.
  RoutingCase case_ = make_case({.tokens = 64,
                                 .topk = 4,
                                 .experts = 6,
                                 .ranks = 3,
                                 .extra_slots = 4,
                                 .drop_percent = 10,
                                 .seed = 7});
  PlanView view_{};
  std::vector<std::int32_t> slot_, send_position_, send_order_, key_offsets_, key_slot_,
      send_offsets_, expert_counts_, payload_offsets_, payload_token_, payload_row_;

  std::int32_t first(bool dropped) const {
    std::int32_t r = 0;
    while ((case_.experts[r] == dropped_route) != dropped) ++r;
    return r;
  }
};

TEST_F(CheckPlan, UnchangedCopyIsRight) {
  check_plan(view_, case_.routes, case_.placement, case_.group);
}

TEST_F(CheckPlan, Sizes) {
  const PlanView right = view_;
  view_.tokens -= 1;
  EXPECT_EQ(violation(), Code::RouteCountMismatch);
  view_ = right;
  view_.experts += 1;
  EXPECT_EQ(violation(), Code::LogicalCountMismatch);
  view_ = right;
  view_.slots -= 1;
  EXPECT_EQ(violation(), Code::SlotCountMismatch);
  view_ = right;
  view_.peers += 1;
  EXPECT_EQ(violation(), Code::GroupShapeMismatch);
}

TEST_F(CheckPlan, AcceptedRouteWithoutSlot) {
  slot_[first(false)] = -1;
  EXPECT_EQ(violation(), Code::ReplicaCardinalityZero);
}

TEST_F(CheckPlan, DroppedRouteWithSlot) {
  slot_[first(true)] = 0;
  EXPECT_EQ(violation(), Code::RouteConservationMismatch);
}

TEST_F(CheckPlan, RouteToASlotOfAnotherExpert) {
  std::int32_t& slot = slot_[first(false)];
  const SlotId right{slot};
  while (case_.placement.expert_of(SlotId{slot}) == case_.placement.expert_of(right)) {
    slot = (slot + 1) % view_.slots;
  }
  EXPECT_EQ(violation(), Code::SlotOutsideReplicaSet);
}

TEST_F(CheckPlan, RouteToAnotherReplicaConservesRowsAndIsStillFound) {
  for (std::size_t r = 0; r < slot_.size(); ++r) {
    if (slot_[r] < 0) continue;
    const auto replicas = case_.placement.replicas(ExpertId{case_.experts[r]});
    if (replicas.size() < 2) continue;
    slot_[r] = replicas[slot_[r] == replicas[0].value ? 1 : 0].value;
    break;
  }
  EXPECT_EQ(violation(), Code::SlotCountMismatch);
}

TEST_F(CheckPlan, ExpertCounts) {
  expert_counts_[2] += 1;
  EXPECT_EQ(violation(), Code::LogicalCountMismatch);
}

TEST_F(CheckPlan, SendKeys) {
  std::swap(key_slot_[0], key_slot_[1]);
  EXPECT_EQ(violation(), Code::LocalSlotOrderMismatch);
}

TEST_F(CheckPlan, KeyOffsets) {
  key_offsets_[3] += 1;
  EXPECT_EQ(violation(), Code::SlotCountMismatch);
}

TEST_F(CheckPlan, RowsThatAreNotConserved) {
  key_offsets_.back() -= 1;
  EXPECT_EQ(violation(), Code::RouteConservationMismatch);
}

TEST_F(CheckPlan, SendOffsets) {
  send_offsets_[1] -= 1;
  EXPECT_EQ(violation(), Code::SendOffsetMismatch);
}

TEST_F(CheckPlan, UnstableSendOrder) {
  std::swap(send_order_[0], send_order_[1]);
  EXPECT_EQ(violation(), Code::SendOrderMismatch);
}

TEST_F(CheckPlan, SendOrderAcrossSlots) {
  std::swap(send_order_.front(), send_order_.back());
  EXPECT_EQ(violation(), Code::SendOrderMismatch);
}

TEST_F(CheckPlan, SendOrderOutsideTheRoutes) {
  send_order_[5] = view_.tokens * view_.topk;
  EXPECT_EQ(violation(), Code::SendOrderMismatch);
}

TEST_F(CheckPlan, Inverse) {
  std::swap(send_position_[first(false)], send_position_[first(false) + 1]);
  EXPECT_EQ(violation(), Code::InversePositionMismatch);
}

TEST_F(CheckPlan, DroppedRouteWithPosition) {
  send_position_[first(true)] = 0;
  EXPECT_EQ(violation(), Code::InversePositionMismatch);
}

TEST_F(CheckPlan, PayloadColumns) {
  payload_offsets_[1] += 1;
  EXPECT_EQ(violation(), Code::SendOffsetMismatch);
  payload_offsets_[1] -= 1;
  std::swap(payload_token_[0], payload_token_[1]);
  EXPECT_EQ(violation(), Code::SendOrderMismatch);
  std::swap(payload_token_[0], payload_token_[1]);
  payload_row_[0] += 1;
  EXPECT_EQ(violation(), Code::InversePositionMismatch);
  payload_row_[0] = -1;
  EXPECT_EQ(violation(), Code::InversePositionMismatch);
}

}  // namespace
}  // namespace waybill::testing
