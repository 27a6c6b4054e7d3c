#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/shape_generator.h"
#include "property/property.h"
#include "waybill/thread_pool.h"

namespace waybill::testing {
namespace {

using ::testing::ElementsAreArray;

// The first column that isn't the directly evaluated one; empty when all are.
std::string differing_column(const HostPlan& plan, const DirectPlan& direct) {
  const auto differs = [](std::span<const std::int32_t> found,
                          const std::vector<std::int32_t>& wanted) {
    return !std::ranges::equal(found, wanted);
  };
  if (differs(plan.slot(), direct.slot)) return "slot";
  if (differs(plan.key_slot(), direct.key_slot)) return "key_slot";
  if (differs(plan.key_offsets(), direct.key_offsets)) return "key_offsets";
  if (differs(plan.send_offsets(), direct.send_offsets)) return "send_offsets";
  if (differs(plan.send_order(), direct.send_order)) return "send_order";
  if (differs(plan.send_position(), direct.send_position)) return "send_position";
  if (differs(plan.expert_counts(), direct.expert_counts)) return "expert_counts";
  if (!plan.dedup()) return {};
  if (differs(plan.payload_offsets(), direct.payload_offsets)) return "payload_offsets";
  if (differs(plan.payload_token(), direct.payload_token)) return "payload_token";
  if (differs(plan.payload_row(), direct.payload_row)) return "payload_row";
  return {};
}

void expect_equal(const HostPlan& plan, const DirectPlan& direct) {
  const std::string column = differing_column(plan, direct);
  property::note(column);
  HOLDS(column.empty());
}

HostPlan plan_of(const RoutingCase& c, const PlanOptions& options) {
  return build_plan(c.routes, c.table, c.placement, c.group, c.source, options);
}

PROPERTY(HostPlan, IsTheDirectEvaluation) {
  const Shape shape = draw_shape();
  const bool dedup = property::draw_bool();
  const RoutingCase c = make_case(shape);
  expect_equal(plan_of(c, {.dedup = dedup}), direct_plan(c));
}

PROPERTY(HostPlan, FollowsAnExplicitAssignment) {
  const Shape shape = draw_shape();
  const bool dedup = property::draw_bool();
  const RoutingCase c = make_case(shape);
  const DirectPlan direct = direct_plan(c);
  expect_equal(build_plan(c.routes, direct.slot, c.placement, c.group, c.source, {.dedup = dedup}),
               direct);
}

PROPERTY(HostPlan, DoesNotDependOnThreads) {
  const Shape shape = draw_shape();
  const bool dedup = property::draw_bool();
  const auto threads = property::draw(2, 5);
  ThreadPool pool(threads);
  const RoutingCase c = make_case(shape);
  const DirectPlan direct = direct_plan(c);
  const PlanOptions options{.dedup = dedup, .pool = &pool, .routes_per_thread = 1};
  expect_equal(plan_of(c, options), direct);
  expect_equal(build_plan(c.routes, direct.slot, c.placement, c.group, c.source, options), direct);
}

class LargeHostPlan : public ::testing::TestWithParam<SelectionRule> {};

// Many times as many routes as are placed before they are scattered, and a last block in part.
TEST_P(LargeHostPlan, IsTheDirectEvaluationOnAnyNumberOfThreads) {
  const RoutingCase c = make_case({.tokens = 2501,
                                   .topk = 8,
                                   .experts = 48,
                                   .ranks = 6,
                                   .extra_slots = 20,
                                   .drop_percent = 5,
                                   .rule = GetParam(),
                                   .seed = 20});
  const DirectPlan direct = direct_plan(c);
  for (const std::int32_t threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    for (const bool dedup : {false, true}) {
      const PlanOptions options{.dedup = dedup, .pool = &pool, .routes_per_thread = 1};
      const HostPlan plan = plan_of(c, options);
      EXPECT_EQ(differing_column(plan, direct), "") << threads << " threads, dedup " << dedup;
      EXPECT_NO_THROW(check_plan(plan, c.routes, c.placement, c.group));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, LargeHostPlan,
                         ::testing::Values(SelectionRule::cyclic, SelectionRule::quota,
                                           SelectionRule::hashed));

PROPERTY(HostPlan, RebuiltInPlaceKeepsNothingOfTheLastStep) {
  const Shape before = draw_shape();
  const Shape after = draw_shape();
  const bool dedup = property::draw_bool();
  const RoutingCase first = make_case(before);
  const RoutingCase second = make_case(after);
  HostPlan plan = plan_of(first, {.dedup = !dedup});
  rebuild_plan(plan, second.routes, second.table, second.placement, second.group, second.source,
               {.dedup = dedup});
  expect_equal(plan, direct_plan(second));
  HOLDS(plan.view().tokens == after.tokens);
  HOLDS((plan.view().payload_offsets != nullptr) == dedup);
}

PROPERTY(HostPlan, SlotCountsPerPeerCoverEveryRow) {
  const Shape shape = draw_shape();
  const RoutingCase c = make_case(shape);
  const HostPlan plan = plan_of(c, {});
  for (std::int32_t p = 0; p < plan.peers(); ++p) {
    const auto counts = plan.slot_counts(PeerSlot{p});
    const auto slots = c.placement.slots_on(c.group.rank_of(PeerSlot{p}));
    HOLDS(counts.size() == slots.size());
    for (std::size_t i = 0; i < slots.size(); ++i) {
      HOLDS(counts[i] == std::count(plan.slot().begin(), plan.slot().end(), slots[i].value));
    }
  }
}

TEST(HostPlan, SurvivesCopyAndMove) {
  const RoutingCase c = make_case({.tokens = 9, .topk = 2, .experts = 5, .ranks = 3});
  HostPlan plan = plan_of(c, {.dedup = true});
  const HostPlan copy = plan;
  const HostPlan moved = std::move(plan);
  EXPECT_NE(copy.view().send_order, moved.view().send_order);
  EXPECT_THAT(copy.send_order(), ElementsAreArray(moved.send_order()));
  EXPECT_EQ(moved.view().rows, 18);
  EXPECT_EQ(*moved.view().status, 0U);
}

}  // namespace
}  // namespace waybill::testing
