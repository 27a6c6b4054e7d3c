#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/shape_generator.h"
#include "property/property.h"
#include "waybill/thread_pool.h"

namespace waybill::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::Matches;

void expect_equal(const HostPlan& plan, const DirectPlan& direct) {
  HOLDS(Matches(ElementsAreArray(direct.slot))(plan.slot()));
  HOLDS(Matches(ElementsAreArray(direct.key_slot))(plan.key_slot()));
  HOLDS(Matches(ElementsAreArray(direct.key_offsets))(plan.key_offsets()));
  HOLDS(Matches(ElementsAreArray(direct.send_offsets))(plan.send_offsets()));
  HOLDS(Matches(ElementsAreArray(direct.send_order))(plan.send_order()));
  HOLDS(Matches(ElementsAreArray(direct.send_position))(plan.send_position()));
  HOLDS(Matches(ElementsAreArray(direct.expert_counts))(plan.expert_counts()));
  if (!plan.dedup()) return;
  HOLDS(Matches(ElementsAreArray(direct.payload_offsets))(plan.payload_offsets()));
  HOLDS(Matches(ElementsAreArray(direct.payload_token))(plan.payload_token()));
  HOLDS(Matches(ElementsAreArray(direct.payload_row))(plan.payload_row()));
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
