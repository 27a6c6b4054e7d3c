// What a step asks of the heap, and what the C functions answer when the heap has no more.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "exec/layer_case.h"
#include "support/allocations.h"
#include "support/random_placement.h"
#include "waybill/thread_pool.h"
#include "waybill/waybill.h"

namespace waybill {
namespace {

using testing::allocations;
using testing::LayerCase;
using testing::RankStep;
using testing::ScarceMemory;

constexpr std::array selectors{Selector::first, Selector::round_robin, Selector::least_load,
                               Selector::locality, Selector::hash};

// Four ranks, every expert with a replica on another one.
LayerCase four_ranks(std::int32_t tokens_per_rank) {
  LayerCase c;
  c.options.hidden = 4;
  c.options.experts = 8;
  c.options.topk = 2;
  c.group = ProcessGroup::identity(4);
  c.topology = Topology::uniform(4);
  const std::vector<std::vector<std::int32_t>> slots{
      {0, 1, 7, 4}, {2, 3, 0, 5}, {4, 5, 1, 6}, {6, 7, 2, 3}};
  c.placement = std::make_shared<const Placement>(
      Placement::from_lists(PlacementVersion("placement-1"), 8, slots));
  c.tokens_per_rank.assign(4, tokens_per_rank);
  const auto routes = static_cast<std::size_t>(4 * tokens_per_rank * c.options.topk);
  for (std::size_t i = 0; i < routes; ++i) {
    c.experts.push_back(i % 11 == 0 ? -1 : static_cast<std::int32_t>(i * 3 % 8));
  }
  c.gates.assign(routes, 0.5F);
  c.hidden.assign(static_cast<std::size_t>(4 * tokens_per_rank * c.options.hidden), 1.0F);
  c.source = testing::random_experts(8, c.options.hidden, 2, DType::f32, 1);
  return c;
}

std::int64_t bytes_of(const std::function<void()>& body) {
  const std::int64_t before = allocations().bytes;
  body();
  return allocations().bytes - before;
}

TEST(RebuiltPlans, AllocateNothingOnceTheyHeldTheLargestBatch) {
  const LayerCase large = four_ranks(300), small = four_ranks(7);
  ThreadPool pool(2);
  for (const Selector selector : selectors) {
    for (const bool dedup : {false, true}) {
      const PlanOptions options{dedup, &pool, 64};
      HostPlan plan;
      const auto rebuild = [&](const LayerCase& c) {
        const RankStep step(c, Rank{1});
        std::vector<std::int64_t> counts = count_experts(step.routes(), 8);
        if (needs_global_counts(selector)) {
          for (int rank = 0; rank < 3; ++rank) {
            counts.insert(counts.end(), counts.begin(), counts.begin() + 8);
          }
        }
        const SelectionTable table = select(selector, *c.placement, c.topology, Rank{1}, counts);
        return bytes_of([&] {
          rebuild_plan(plan, step.routes(), table, *c.placement, c.group, Rank{1}, options);
        });
      };
      EXPECT_GT(rebuild(large), 0);
      for (const LayerCase* c : {&small, &large, &small, &large}) {
        EXPECT_EQ(rebuild(*c), 0) << name(selector) << (dedup ? ", dedup" : "");
      }
    }
  }
}

TEST(RebuiltReceivePlans, AllocateNothingOnceTheyHeldTheLargestBatch) {
  const std::vector<std::int32_t> large(16, 90), small(16, 3);
  const ProcessGroup group = ProcessGroup::identity(4);
  ReceivePlan plan;
  rebuild_receive_plan(plan, large, 4, group);
  for (const auto* counts : {&small, &large}) {
    EXPECT_EQ(bytes_of([&] { rebuild_receive_plan(plan, *counts, 4, group); }), 0);
  }
}

class SteadySteps : public ::testing::TestWithParam<std::tuple<Checks, bool, Selector>> {};

// The fewest bytes of several steps: peers also wake each other, which allocates now and then.
TEST_P(SteadySteps, AllocateNothingThatGrowsWithTheirTokens) {
  LayerCase large = four_ranks(2048), small = four_ranks(16);
  std::tie(large.options.checks, large.options.dedup, large.options.selector) = GetParam();
  PlacementRegistry registry;
  testing::load_and_activate(registry, large);
  LocalGroup(large.group, large.comm).run([&](Communicator& comm) {
    MoeLayer layer(large.options, comm, registry, large.topology, large.source);
    RankStep large_step(large, comm.rank()), small_step(small, comm.rank());
    const auto fewest_bytes = [&](RankStep& step) {
      std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
      for (int i = 0; i < 24; ++i) {
        fewest = std::min(
            fewest, bytes_of([&] { layer.forward(step.routes(), step.hidden(), step.output()); }));
      }
      return fewest;
    };
    fewest_bytes(large_step);
    const std::int64_t few_tokens = fewest_bytes(small_step);
    const std::int64_t many_tokens = fewest_bytes(large_step);
    constexpr std::int64_t bit_per_route = 2 * 2048 / 8;
    EXPECT_LE(many_tokens, few_tokens + bit_per_route) << "rank " << comm.rank().value;
    EXPECT_LE(many_tokens, 16 * 1024);
  });
}

INSTANTIATE_TEST_SUITE_P(
    OfEveryKind, SteadySteps,
    ::testing::Combine(::testing::Values(Checks::counts, Checks::full), ::testing::Bool(),
                       ::testing::Values(Selector::first, Selector::least_load)));

// One rank of the C API, with one expert that copies no row.
struct OneRank {
  std::vector<float> gate = std::vector<float>(4, 1.0F), rows = std::vector<float>(8, 1.0F);
  std::vector<float> result = std::vector<float>(8), gates = std::vector<float>(2, 1.0F);
  std::vector<std::int32_t> ids{0, 0};
  wb_runtime_options options{};
  wb_expert_weights expert{};
  wb_routes routes{};
  wb_runtime* runtime = nullptr;
  wb_handle handle{};

  OneRank() {
    options.size = sizeof options;
    options.magic = WB_RUNTIME_OPTIONS_MAGIC;
    options.ranks = options.nodes = options.experts = options.topk = 1;
    options.hidden = 4;
    options.checks = WB_CHECKS_FULL;
    options.timeout_ms = 30000;
    expert.size = sizeof expert;
    expert.magic = WB_EXPERT_WEIGHTS_MAGIC;
    expert.gate = expert.up = wb_tensor_2d(gate.data(), WB_F32, 1, 4);
    expert.down = wb_tensor_2d(gate.data(), WB_F32, 4, 1);
    routes.size = sizeof routes;
    routes.magic = WB_ROUTES_MAGIC;
    routes.tokens = 2;
    routes.topk = 1;
    routes.experts = ids.data();
    routes.gates = gates.data();
  }
  ~OneRank() { wb_runtime_close(runtime); }
  OneRank(const OneRank&) = delete;
  OneRank& operator=(const OneRank&) = delete;

  wb_code open() { return wb_runtime_open(&options, &expert, &runtime); }
  wb_code plan() { return wb_plan(runtime, 0, &routes, &handle); }
  wb_code dispatch() {
    const wb_tensor tensor = wb_tensor_2d(rows.data(), WB_F32, 2, 4);
    return wb_dispatch(runtime, 0, handle, &tensor);
  }
  wb_code combine() {
    const wb_tensor tensor = wb_tensor_2d(result.data(), WB_F32, 2, 4);
    return wb_combine(runtime, 0, handle, &tensor, nullptr);
  }
};

class CFunctions : public ::testing::TestWithParam<std::int64_t> {};

// Each call of a step meets a heap that ends at each of its allocations.
TEST_P(CFunctions, ReturnACodeWhereverMemoryEnds) {
  constexpr std::array calls{&OneRank::open, &OneRank::plan, &OneRank::dispatch, &OneRank::combine};
  for (std::size_t call = 0; call < calls.size(); ++call) {
    std::int64_t passed = 0;
    for (bool failed = true; failed; ++passed) {
      OneRank rank;
      for (std::size_t before = 0; before < call; ++before)
        ASSERT_EQ((rank.*calls[before])(), WB_OK);
      wb_code code = WB_OK;
      {
        const ScarceMemory scarce(passed, GetParam());
        code = (rank.*calls[call])();
        failed = scarce.used();
      }
      ASSERT_EQ(code, failed ? WB_MemoryExhausted : WB_OK)
          << "call " << call << " after " << passed;
      if (failed) {
        EXPECT_EQ(std::string(wb_last_error_message()), "MemoryExhausted");
      }
    }
    EXPECT_GT(passed, 1) << "call " << call;
  }
}

INSTANTIATE_TEST_SUITE_P(ForOneAllocationOrAllThatFollow, CFunctions,
                         ::testing::Values(1, std::numeric_limits<std::int64_t>::max()));

}  // namespace
}  // namespace waybill
