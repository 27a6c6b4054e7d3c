// Ledgers beside the fixture: dedup, drops, local bypass, and what they refuse.
#include "waybill/ledger.h"
#include "property/property.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "plan/shape_generator.h"
#include "support/fault.h"

namespace waybill::testing {
namespace {

PROPERTY(RowLedger, CountsEachRouteOfOneRankOnce) {
  const Shape shape = draw_shape();
  const bool dedup = property::draw_bool();
  RoutingCase c = make_case({.tokens = shape.tokens,
                             .topk = shape.topk,
                             .experts = shape.experts,
                             .ranks = shape.ranks,
                             .extra_slots = shape.extra_slots,
                             .drop_percent = shape.drop_percent,
                             .seed = shape.seed});
  const HostPlan busy =
      build_plan(c.routes, c.table, c.placement, c.group, c.source, {.dedup = dedup});
  const RoutesView none{0, shape.topk, {}, {}};
  const HostPlan idle = build_plan(none, c.table, c.placement, c.group, c.source, {.dedup = dedup});
  std::vector<const HostPlan*> plans(c.group.size(), &idle);
  plans[c.group.peer_of(c.source).index()] = &busy;
  const RowLedger rows = row_ledger(plans, c.group);

  std::int64_t accepted = 0, local = 0;
  std::set<std::pair<std::int32_t, std::int32_t>> pairs;  // (destination rank, token)
  std::vector<std::int64_t> split(shape.ranks, 0);
  for (std::int32_t r = 0; r < c.routes.size(); ++r) {
    if (busy.slot()[r] == dropped_route) continue;
    const Rank destination = c.placement.rank_of(SlotId{busy.slot()[r]});
    ++accepted;
    local += destination == c.source ? 1 : 0;
    ++split[destination.index()];
    pairs.emplace(destination.value, r / shape.topk);
  }
  HOLDS(rows.tokens.value == shape.tokens);
  HOLDS(rows.routes.value == accepted);
  HOLDS(rows.dropped.value == c.routes.size() - accepted);
  HOLDS(rows.local.value == local);
  HOLDS(rows.remote.value == accepted - local);
  HOLDS(rows.payload.value == (dedup ? static_cast<std::int64_t>(pairs.size()) : accepted));
  HOLDS(rows.padded.value ==
        std::int64_t{shape.ranks} * shape.ranks * *std::max_element(split.begin(), split.end()));
}

TEST(ByteLedger, DedupShortensDispatchOnly) {
  RowLedger rows;
  rows.routes = Rows{8};
  rows.remote = Rows{6};
  rows.payload = Rows{5};
  rows.remote_payload = Rows{3};
  const ByteLedger bytes = byte_ledger(rows, {.hidden = 10}, 2, 4);
  EXPECT_EQ(bytes.stage_dispatch.value, 100);
  EXPECT_EQ(bytes.remote_dispatch.value, 60);
  EXPECT_EQ(bytes.stage_combine.value, 160);
  EXPECT_EQ(bytes.remote_combine.value, 120);
  EXPECT_EQ(bytes.dispatch_metadata.value, 48);
}

TEST(ByteLedger, WithoutLocalBypassLocalRowsAreWireBytesToo) {
  RowLedger rows;
  rows.routes = rows.payload = Rows{8};
  rows.remote = rows.remote_payload = Rows{6};
  const ByteLedger bytes = byte_ledger(rows, {.hidden = 3, .local_bypass = false}, 4, 10);
  EXPECT_EQ(bytes.remote_dispatch.value, 48);
  EXPECT_EQ(bytes.remote_logical.value, 48 + 48 + 64 + 32);
}

TEST(ByteLedger, RefusesWhat64BitsDoNotHold) {
  RowLedger rows;
  rows.payload = Rows{1 << 20};
  const std::int64_t wide = std::numeric_limits<std::int64_t>::max() / 1000;
  EXPECT_EQ(fault([&] { byte_ledger(rows, {.hidden = wide}, 2, 4); }).code(), Code::InvalidValue);
  EXPECT_EQ(fault([&] { byte_ledger(rows, {.hidden = -1}, 2, 4); }).code(), Code::InvalidValue);
}

TEST(RowLedger, RefusesPlansOfAnotherGroup) {
  const RoutingCase c = make_case({.tokens = 4, .topk = 2, .experts = 4, .ranks = 2});
  const HostPlan plan = build_plan(c.routes, c.table, c.placement, c.group, c.source);
  const std::vector<const HostPlan*> three(3, &plan);
  EXPECT_EQ(fault([&] { row_ledger(three, c.group); }).code(), Code::RankCountMismatch);
  EXPECT_EQ(fault([&] { row_ledger(three, ProcessGroup::identity(3)); }).code(),
            Code::GroupShapeMismatch);
}

}  // namespace
}  // namespace waybill::testing
