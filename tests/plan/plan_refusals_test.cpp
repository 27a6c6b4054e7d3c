// What a plan refuses to be built from: each fault with its code and coordinates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "plan/routing_case.h"
#include "support/fault.h"

namespace waybill::testing {
namespace {

using ::testing::ElementsAre;

// Experts 0, 1, 2 in slots 0 (rank 0), 1 and 2 (rank 1); expert 0 again in slot 3 (rank 1).
class PlanRefusal : public ::testing::Test {
 protected:
  Placement placement_ = Placement::from_lists(
      PlacementVersion("v1"), 3, std::vector<std::vector<std::int32_t>>{{0}, {1, 2, 0}});
  ProcessGroup group_ = ProcessGroup::identity(2);
  std::vector<std::int32_t> experts_ = {0, 1, 2, dropped_route};
  std::vector<float> gates_ = {1, 1, 1, 1};
  std::int32_t tokens_ = 2, topk_ = 2;
  SelectionTable table_{.rule = SelectionRule::cyclic,
                        .offsets = {0, 2, 3, 4},
                        .candidates = {SlotId{0}, SlotId{3}, SlotId{1}, SlotId{2}},
                        .quota_end = {1, 1, 1, 1},
                        .ordinal_base = {0, 0, 0}};
  std::vector<std::int32_t> assigned_ = {3, 1, 2, -1};
  Rank source_{0};

  RoutesView routes() const { return {tokens_, topk_, experts_, gates_}; }
  HostPlan plan() const { return build_plan(routes(), table_, placement_, group_, source_); }
  HostPlan assigned_plan() const {
    return build_plan(routes(), assigned_, placement_, group_, source_);
  }
  Error refusal() const {
    return fault([this] { plan(); });
  }
  Error assigned_refusal() const {
    return fault([this] { assigned_plan(); });
  }
};

TEST_F(PlanRefusal, NothingIsWrongAtFirst) {
  for (const auto rule : {SelectionRule::cyclic, SelectionRule::quota, SelectionRule::hashed}) {
    table_.rule = rule;
    EXPECT_EQ(plan().rows(), 3);
  }
  EXPECT_THAT(assigned_plan().slot(), ElementsAre(3, 1, 2, -1));
}

TEST_F(PlanRefusal, IdsOutOfRange) {
  for (const std::int32_t id : {3, -2, std::numeric_limits<std::int32_t>::max(),
                                std::numeric_limits<std::int32_t>::min()}) {
    experts_ = {0, 1, id, -1};
    for (const auto rule : {SelectionRule::cyclic, SelectionRule::quota, SelectionRule::hashed}) {
      table_.rule = rule;
      const Error error = refusal();
      EXPECT_EQ(error.code(), Code::ExpertIdOutOfRange) << error.what();
      EXPECT_EQ(error.coordinate("token"), "1");
      EXPECT_EQ(error.coordinate("route slot"), "0");
    }
    EXPECT_EQ(assigned_refusal().code(), Code::ExpertIdOutOfRange);
  }
}

TEST_F(PlanRefusal, IdColumnOfAnotherSize) {
  tokens_ = 3;
  EXPECT_EQ(refusal().code(), Code::RouteCountMismatch);
  tokens_ = -2;
  topk_ = -2;
  EXPECT_EQ(refusal().code(), Code::RouteCountMismatch);
}

TEST_F(PlanRefusal, MoreRoutesThanA32BitPositionHolds) {
  tokens_ = 1 << 20;
  topk_ = 1 << 12;
  EXPECT_EQ(refusal().code(), Code::RouteCountMismatch);
}

TEST_F(PlanRefusal, RanksOutsideTheGroup) {
  source_ = Rank{2};
  EXPECT_EQ(refusal().coordinate("source rank"), "2");
  source_ = Rank{1};
  group_ = ProcessGroup(ProcessGroupId("g"), GroupEpoch{1}, {Rank{1}});
  const Error error = refusal();
  EXPECT_EQ(error.code(), Code::RankOutsideGroup);
  EXPECT_EQ(error.coordinate("rank"), "0");
}

TEST_F(PlanRefusal, TableNamesASlotOfAnotherExpert) {
  table_.candidates[2] = SlotId{2};
  const Error error = refusal();
  EXPECT_EQ(error.code(), Code::SlotOutsideReplicaSet);
  EXPECT_EQ(error.coordinate("expert"), "1");
  table_.candidates[2] = SlotId{4};
  EXPECT_EQ(refusal().code(), Code::SlotOutsideReplicaSet);
  table_.candidates[2] = SlotId{-1};
  EXPECT_EQ(refusal().code(), Code::SlotOutsideReplicaSet);
}

TEST_F(PlanRefusal, ExpertWithRoutesButNoCandidate) {
  table_.offsets = {0, 2, 2, 3};
  table_.candidates = {SlotId{0}, SlotId{3}, SlotId{2}};
  table_.quota_end = {1, 1, 1};
  for (const auto rule : {SelectionRule::cyclic, SelectionRule::quota, SelectionRule::hashed}) {
    table_.rule = rule;
    const Error error = refusal();
    EXPECT_EQ(error.code(), Code::ReplicaCardinalityZero);
    EXPECT_EQ(error.coordinate("expert"), "1");
    experts_[1] = 2;
    table_.quota_end[2] = 2;
    EXPECT_EQ(plan().rows(), 3);
    experts_[1] = 1;
  }
}

TEST_F(PlanRefusal, QuotasThatEndBeforeTheRoutes) {
  table_.rule = SelectionRule::quota;
  experts_ = {0, 0, 0, 1};
  table_.quota_end = {1, 2, 1, 1};
  const Error error = refusal();
  EXPECT_EQ(error.code(), Code::ReplicaCardinalityZero);
  EXPECT_EQ(error.coordinate("expert"), "0");
}

TEST_F(PlanRefusal, TablesThatDoNotFitTogether) {
  const SelectionTable good = table_;
  const auto expect_invalid = [this] { EXPECT_EQ(refusal().code(), Code::InvalidValue); };
  table_.offsets = {0, 2, 3};
  expect_invalid();
  table_.offsets = {1, 2, 3, 4};
  expect_invalid();
  table_.offsets = {0, 3, 2, 4};
  expect_invalid();
  table_ = good;
  table_.candidates.pop_back();
  expect_invalid();
  table_ = good;
  table_.ordinal_base.pop_back();
  expect_invalid();
  table_ = good;
  table_.ordinal_base[1] = -1;
  expect_invalid();
  table_ = good;
  table_.rule = SelectionRule::quota;
  table_.quota_end.pop_back();
  expect_invalid();
}

TEST_F(PlanRefusal, AssignmentsThatAreNone) {
  assigned_ = {3, 1, 2};
  EXPECT_EQ(assigned_refusal().code(), Code::RouteCountMismatch);
  assigned_ = {3, 1, -1, -1};
  EXPECT_EQ(assigned_refusal().code(), Code::ReplicaCardinalityZero);
  assigned_ = {3, 1, 2, 0};
  EXPECT_EQ(assigned_refusal().code(), Code::RouteConservationMismatch);
  for (const std::int32_t slot : {2, 4, -2}) {
    assigned_ = {0, slot, 2, -1};
    const Error error = assigned_refusal();
    EXPECT_EQ(error.code(), Code::SlotOutsideReplicaSet);
    EXPECT_EQ(error.coordinate("token"), "0");
    EXPECT_EQ(error.coordinate("route slot"), "1");
  }
}

TEST_F(PlanRefusal, AFailedRebuildLeavesAnEmptyPlan) {
  HostPlan rebuilt = plan();
  experts_[0] = 9;
  EXPECT_EQ(
      fault([&] { rebuild_plan(rebuilt, routes(), table_, placement_, group_, source_); }).code(),
      Code::ExpertIdOutOfRange);
  EXPECT_EQ(rebuilt.rows(), 0);
  EXPECT_EQ(rebuilt.view().tokens, 0);
  EXPECT_TRUE(rebuilt.slot().empty());
}

// All but 10 of 2304 tokens choose the same 8 experts; 16 ranks.
TEST(HostPlan, CountsEveryRouteWhenNearlyAllChooseTheSameExperts) {
  std::vector<std::int32_t> experts(std::size_t{2304} * 8);
  for (std::size_t r = 0; r < experts.size(); ++r) {
    experts[r] = static_cast<std::int32_t>(r < 80 ? 8 + r % 56 : r % 8);
  }
  const std::vector<float> gates(experts.size(), 1.0F);
  const Placement placement = Placement::contiguous(PlacementVersion("v1"), 64, 16);
  const ProcessGroup group = ProcessGroup::identity(16);
  SelectionTable table;
  table.offsets.resize(65);
  table.ordinal_base.assign(64, 0);
  std::iota(table.offsets.begin(), table.offsets.end(), 0);
  for (std::int32_t q = 0; q < 64; ++q) table.candidates.push_back(SlotId{q});
  const RoutesView routes{2304, 8, experts, gates};
  const HostPlan plan = build_plan(routes, table, placement, group, Rank{3});
  EXPECT_EQ(plan.rows(), 2304 * 8);
  EXPECT_EQ(plan.send_offsets().back(), 2304 * 8);
  check_plan(plan, routes, placement, group);
}

}  // namespace
}  // namespace waybill::testing
