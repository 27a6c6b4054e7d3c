// The device plan against HostPlan, column by column.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include "cuda/gpu.h"
#include "plan/cuda/device_plan.h"
#include "plan/routing_case.h"
#include "support/fault.h"

namespace waybill {
namespace {

using testing::gpu;
using testing::on_gpu;
using testing::RoutingCase;
using testing::Shape;

std::vector<std::int32_t> column(const std::int32_t* device, std::size_t size) {
  std::vector<std::int32_t> host(size);
  WAYBILL_CALL(cudaMemcpy(host.data(), device, size * 4, cudaMemcpyDeviceToHost));
  return host;
}

template <class Columns>
std::vector<std::int32_t> host_column(const Columns& values) {
  return {values.begin(), values.end()};
}

// A device plan with everything that it needs.
class Planner {
 public:
  explicit Planner(const RoutingCase& c)
      : tables_(c.table, c.placement, c.group, c.source, c.routes.topk, gpu),
        workspace_(gpu, CudaPlan::workspace_bytes(tables_, c.routes.tokens)),
        plan_(tables_, c.routes.tokens, workspace_),
        stream_(Stream::on(gpu)) {}

  void build(const std::vector<std::int32_t>& ids, std::int32_t tokens,
             const TensorView& real_tokens = {}) {
    ids_ = on_gpu(ids);
    plan_.build(testing::matrix(ids_, DType::i32, tokens, plan_.view().topk), stream_, real_tokens);
    stream_.synchronize();
  }
  void expect_equal(const HostPlan& host) const {
    const PlanView& d = plan_.view();
    const auto routes = static_cast<std::size_t>(host.tokens()) * host.topk();
    EXPECT_EQ(column(d.key_offsets, host.key_offsets().size()), host_column(host.key_offsets()));
    EXPECT_EQ(column(d.key_slot, host.key_slot().size()), host_column(host.key_slot()));
    EXPECT_EQ(column(d.send_offsets, host.send_offsets().size()), host_column(host.send_offsets()));
    EXPECT_EQ(column(d.expert_counts, host.expert_counts().size()),
              host_column(host.expert_counts()));
    EXPECT_EQ(column(d.slot, routes), host_column(host.slot()));
    EXPECT_EQ(column(d.send_position, routes), host_column(host.send_position()));
    EXPECT_EQ(column(d.send_order, host.send_order().size()), host_column(host.send_order()));
  }
  CudaPlan& plan() { return plan_; }
  const Stream& stream() const { return stream_; }

 private:
  DevicePlanTables tables_;
  Workspace workspace_;
  CudaPlan plan_;
  Stream stream_;
  DeviceArray<std::int32_t> ids_;
};

HostPlan host_plan(const RoutingCase& c) {
  return build_plan(c.routes, c.table, c.placement, c.group, c.source);
}

// Every choice is drawn on its own, so that all meet all.
Shape random_shape(std::uint32_t seed) {
  std::mt19937 random(seed * 7919 + 1);
  const auto below = [&](std::int32_t n) { return testing::below(random, n); };
  const auto upto = [&](std::int32_t n) { return 1 + below(n); };
  const auto one_in = [&](std::int32_t n) { return below(n) == 0; };
  Shape s;
  s.seed = seed;
  s.topk = one_in(3) ? 8 : upto(32);
  s.experts = one_in(4) ? 256 : upto(upto(512));
  s.ranks = std::min(upto(16), s.experts);
  s.extra_slots = one_in(2) ? 0 : below(s.experts + 8);
  s.drop_percent = one_in(3) ? upto(100) : 0;
  s.one_expert = one_in(10);
  s.rule = static_cast<SelectionRule>(below(3));
  switch (below(10)) {
    case 0: s.tokens = below(2); break;
    case 1:
    case 2: s.tokens = upto(128); break;
    case 3:
    case 4: s.tokens = 512 + upto(4096); break;
    default: s.tokens = upto(1000);
  }
  if (one_in(100)) s.tokens = 65536;
  return s;
}

TEST(DevicePlan, RandomCasesEqualTheHostPlanBitForBit) {
  const std::uint32_t cases = testing::short_run() ? 60 : 1000;
  for (std::uint32_t seed = 0; seed < cases; ++seed) {
    const Shape shape = random_shape(seed);
    SCOPED_TRACE(::testing::Message() << "seed " << seed << " T " << shape.tokens << " k "
                                      << shape.topk << " E " << shape.experts);
    const RoutingCase c = testing::make_case(shape);
    Planner planner(c);
    planner.build(c.experts, c.routes.tokens);
    planner.expect_equal(host_plan(c));
    planner.plan().check(planner.stream());
    if (HasFailure()) return;
  }
  std::printf("%u random plans equal the host's\n", cases);
}

TEST(DevicePlan, ReadBackIsTheHostPlan) {
  for (const std::uint32_t seed : {1U, 2U, 5U, 10U, 33U, 44U, 60U}) {
    const RoutingCase c = testing::make_case(random_shape(seed));
    Planner planner(c);
    planner.build(c.experts, c.routes.tokens);
    const HostPlan found = planner.plan().read_back(planner.stream());
    const HostPlan expected = host_plan(c);
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    check_plan(found, c.routes, c.placement, c.group);
    EXPECT_EQ(found.rows(), expected.rows());
    EXPECT_EQ(host_column(found.send_order()), host_column(expected.send_order()));
    for (std::int32_t peer = 0; peer < c.group.size(); ++peer) {
      EXPECT_EQ(host_column(found.slot_counts(PeerSlot{peer})),
                host_column(expected.slot_counts(PeerSlot{peer})));
      EXPECT_EQ(found.send_count(PeerSlot{peer}), expected.send_count(PeerSlot{peer}));
    }
  }
}

TEST(DevicePlan, AFailedPlanIsNotReadBack) {
  const RoutingCase c = testing::make_case({.tokens = 4, .topk = 2, .experts = 8, .seed = 12});
  std::vector<std::int32_t> ids = c.experts;
  ids[3] = 8;
  Planner planner(c);
  planner.build(ids, 4);
  EXPECT_EQ(testing::fault([&] { planner.plan().read_back(planner.stream()); }).code(),
            Code::ExpertIdOutOfRange);
}

TEST(DevicePlan, LargePlansOfManyTilesEqualTheHostPlan) {
  for (const std::int32_t topk : {8, 32}) {
    const RoutingCase c =
        testing::make_case({.tokens = 65536, .topk = topk, .experts = 256, .seed = 5});
    Planner planner(c);
    planner.build(c.experts, c.routes.tokens);
    planner.expect_equal(host_plan(c));
  }
}

TEST(DevicePlan, ThousandsOfSlotsFit) {
  const RoutingCase c = testing::make_case(
      {.tokens = 700, .topk = 8, .experts = 3000, .ranks = 8, .extra_slots = 1000, .seed = 6});
  Planner planner(c);
  planner.build(c.experts, c.routes.tokens);
  planner.expect_equal(host_plan(c));
}

TEST(DevicePlan, ASmallerStepReusesTheReservation) {
  const RoutingCase c = testing::make_case({.tokens = 5000, .topk = 4, .experts = 64, .seed = 7});
  Planner planner(c);
  for (const std::int32_t tokens : {5000, 1, 0, 900, 5000}) {
    const RoutesView routes{tokens, 4, std::span(c.experts).first(tokens * 4),
                            std::span(c.gates).first(tokens * 4)};
    planner.build({routes.experts.begin(), routes.experts.end()}, tokens);
    planner.expect_equal(build_plan(routes, c.table, c.placement, c.group, c.source));
  }
}

TEST(DevicePlan, BadIdsCountAsDroppedAndAreNamedAtTheStatusRead) {
  for (const std::int32_t tokens : {40, 3000}) {
    RoutingCase c = testing::make_case({.tokens = tokens, .topk = 4, .experts = 32, .seed = 8});
    std::vector<std::int32_t> ids = c.experts;
    for (const std::int32_t bad : {77, 151}) ids[bad] = bad == 77 ? 32 : -7;
    c.experts[77] = c.experts[151] = dropped_route;
    Planner planner(c);
    planner.build(ids, tokens);
    planner.expect_equal(host_plan(c));
    const Error error = testing::fault([&] { planner.plan().check(planner.stream()); });
    EXPECT_EQ(error.code(), Code::ExpertIdOutOfRange);
    EXPECT_EQ(error.coordinate("token"), "19");
    EXPECT_EQ(error.coordinate("route slot"), "1");
    EXPECT_EQ(error.coordinate("bad routes"), "2");
    EXPECT_EQ(error.found_text(), "32");
    planner.build(c.experts, tokens);  // the next plan starts clean
    planner.plan().check(planner.stream());
  }
}

TEST(DevicePlan, AnExpertWithoutQuotaForARouteIsNamedAtTheStatusRead) {
  const Placement placement = Placement::contiguous(PlacementVersion{"p"}, 2, 1);
  SelectionTable table;
  table.rule = SelectionRule::quota;
  table.offsets = {0, 1, 2};
  table.candidates = {SlotId{0}, SlotId{1}};
  table.quota_end = {2, 100};
  table.ordinal_base = {0, 0};
  const RoutingCase c{{0, 0, 0, 1}, {1, 1, 1, 1}, {}, placement, ProcessGroup::identity(1),
                      Rank{0},      table};
  const DevicePlanTables tables(c.table, c.placement, c.group, c.source, 1, gpu);
  Workspace workspace(gpu, CudaPlan::workspace_bytes(tables, 4));
  CudaPlan plan(tables, 4, workspace);
  const Stream stream = Stream::on(gpu);
  const auto ids = on_gpu(c.experts);
  plan.build(testing::matrix(ids, DType::i32, 4, 1), stream, {});
  EXPECT_EQ(testing::fault([&] { plan.check(stream); }).code(), Code::ReplicaCardinalityZero);
  EXPECT_EQ(column(plan.view().slot, 4), (std::vector<std::int32_t>{0, 0, -1, 1}));
  EXPECT_EQ(column(plan.view().key_offsets, 3), (std::vector<std::int32_t>{0, 2, 3}));
}

TEST(DevicePlan, PaddingTokensAreDroppedAndLoadCountsRealOnes) {
  for (const std::int32_t tokens : {64, 4000}) {
    RoutingCase c = testing::make_case({.tokens = tokens, .topk = 8, .experts = 40, .seed = 9});
    const std::vector<std::int32_t> ids = c.experts;
    const std::int32_t real = tokens / 2 + 3;
    std::fill(c.experts.begin() + real * 8, c.experts.end(), dropped_route);
    const auto real_tokens = on_gpu(std::vector<std::int32_t>{real});
    Planner planner(c);
    const HostPlan host = host_plan(c);
    std::vector<std::uint64_t> load(40, 0);
    for (int step = 0; step < 3; ++step) {
      planner.build(ids, tokens, TensorView::contiguous(real_tokens.data(), DType::i32, {1}, gpu));
      planner.expect_equal(host);
      for (std::size_t e = 0; e < load.size(); ++e) {
        load[e] += static_cast<std::uint64_t>(host.expert_counts()[e]);
      }
    }
    EXPECT_EQ(planner.plan().load(planner.stream()), load);
  }
}

TEST(DevicePlan, MoreTokensThanReservedAreRefused) {
  const RoutingCase c = testing::make_case({.tokens = 8, .topk = 2, .experts = 4, .seed = 10});
  Planner planner(c);
  const auto ids = on_gpu(std::vector<std::int32_t>(18, 0));
  const TensorView nine = testing::matrix(ids, DType::i32, 9, 2);
  EXPECT_EQ(testing::fault([&] { planner.plan().build(nine, planner.stream(), {}); }).code(),
            Code::WorkspaceTooSmall);
}

TEST(DevicePlan, ATableThatNamesAForeignOrARepeatedSlotIsRefused) {
  const RoutingCase c = testing::make_case({.tokens = 1, .topk = 1, .experts = 4, .seed = 11});
  const auto refused = [&](const SelectionTable& table) {
    return testing::fault([&] { DevicePlanTables(table, c.placement, c.group, c.source, 1, gpu); })
        .code();
  };
  SelectionTable foreign = c.table;
  foreign.candidates[0] = c.placement.replicas(ExpertId{1})[0];
  EXPECT_EQ(refused(foreign), Code::SlotOutsideReplicaSet);
  SelectionTable repeated = c.table;
  repeated.candidates.insert(repeated.candidates.begin(), repeated.candidates[0]);
  repeated.quota_end.insert(repeated.quota_end.begin(), repeated.quota_end[0]);
  for (std::size_t e = 1; e < repeated.offsets.size(); ++e) ++repeated.offsets[e];
  EXPECT_EQ(refused(repeated), Code::DuplicateSlotId);
  SelectionTable cut = c.table;
  cut.ordinal_base.pop_back();
  EXPECT_EQ(refused(cut), Code::InvalidValue);
}

}  // namespace
}  // namespace waybill
