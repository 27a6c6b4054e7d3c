// Inputs on which MoE systems have failed, each as its whole kind: dropped routes, repeated
// experts, ranks without tokens, nearly all tokens to a few experts, and generations that change
// meanwhile.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "exec/layer_case.h"
#include "support/fault.h"
#include "support/random_placement.h"

namespace waybill {
namespace {

using testing::LayerCase;
using testing::LayerRun;
using testing::RankStep;

// Experts scale by id + 1; hidden rows are [token + 1]*d.
LayerCase scaling_case(std::int32_t ranks, std::int32_t experts, std::int32_t topk) {
  LayerCase c;
  c.options.hidden = 3;
  c.options.experts = experts;
  c.options.topk = topk;
  c.options.checks = Checks::full;
  c.group = ProcessGroup::identity(ranks);
  c.topology = Topology::uniform(ranks);
  c.placement = std::make_shared<const Placement>(
      Placement::contiguous(PlacementVersion("placement-1"), experts, ranks));
  std::vector<float> scales(static_cast<std::size_t>(experts));
  std::iota(scales.begin(), scales.end(), 1.0F);
  c.source = testing::scaling_experts(scales, c.options.hidden, c.options.dtype);
  c.runner = testing::make_scaling_runner;
  return c;
}

void set_tokens(LayerCase& c, std::vector<std::int32_t> tokens_per_rank) {
  const std::int32_t tokens = std::accumulate(tokens_per_rank.begin(), tokens_per_rank.end(), 0);
  c.tokens_per_rank = std::move(tokens_per_rank);
  for (std::int32_t token = 0; token < tokens; ++token) {
    c.hidden.insert(c.hidden.end(), static_cast<std::size_t>(c.options.hidden),
                    static_cast<float>(token + 1));
  }
}

TEST(DroppedRoutes, AreCountedNeverExecutedAndNeverRenormalised) {
  for (const bool dedup : {false, true}) {
    LayerCase c = scaling_case(2, 4, 2);
    c.options.dedup = dedup;
    set_tokens(c, {2, 2});
    c.experts = {0, 3, -1, 2, -1, -1, 1, -1};
    c.gates.assign(8, 0.5F);
    c.gates[2] = std::nanf("");  // a dropped route's gate is never read
    const LayerRun run = testing::run(c);
    const std::vector<float> weights{0.5F * 1 + 0.5F * 4, 0.5F * 3, 0.0F, 0.5F * 2};
    for (std::size_t token = 0; token < 4; ++token) {
      EXPECT_EQ(run.output[token * 3], weights[token] * static_cast<float>(token + 1));
    }
    EXPECT_FALSE(std::signbit(run.output[2 * 3]));
    std::int64_t dropped = 0;
    std::vector<std::int64_t> counts;
    for (const StepReport& report : run.reports) {
      dropped += report.admission.dropped;
      for (const Rows rows : report.slot_rows) counts.push_back(rows.value);
    }
    EXPECT_EQ(dropped, 4);
    EXPECT_EQ(counts, (std::vector<std::int64_t>{1, 1, 1, 1}));
  }
}

TEST(IdsOutOfRange, AreDroppedAndCountedWhereTheLayerSaysSo) {
  for (const Checks checks : {Checks::counts, Checks::full}) {
    LayerCase c = scaling_case(2, 4, 2);
    c.options.checks = checks;
    c.options.bad_ids = BadIdPolicy::drop;
    set_tokens(c, {2, 1});
    c.experts = {0, 4, -1, 2, -2, std::numeric_limits<std::int32_t>::max()};
    c.gates.assign(6, 0.5F);
    c.gates[1] = std::nanf("");  // never read
    const LayerRun run = testing::run(c);
    EXPECT_EQ(run.output, (std::vector<float>{0.5F, 0.5F, 0.5F, 3, 3, 3, 0, 0, 0}));
    EXPECT_EQ(run.reports[0].admission.accepted, 2);
    EXPECT_EQ(run.reports[0].admission.dropped, 2);
    EXPECT_EQ(run.reports[0].admission.out_of_range, 1);
    EXPECT_EQ(run.reports[1].admission.out_of_range, 2);
  }
}

TEST(RepeatedExpert, InOneTokenRunsOncePerSlot) {
  for (const bool dedup : {false, true}) {
    LayerCase c = scaling_case(2, 6, 4);
    c.options.dedup = dedup;
    set_tokens(c, {1, 1});
    c.experts = {5, 5, 5, 5, 0, 5, 0, 5};
    c.gates.assign(8, 0.25F);
    const LayerRun run = testing::run(c);
    EXPECT_EQ(run.output, (std::vector<float>{6, 6, 6, 7, 7, 7}));
    EXPECT_EQ(run.reports[1].received.value, 6);
    EXPECT_EQ(run.reports[0].payload_sent[1].value, dedup ? 1 : 4);
  }
}

TEST(RanksWithoutTokens, ReturnNothingAndChangeNobodysBits) {
  for (const auto& tokens :
       std::vector<std::vector<std::int32_t>>{{16, 0, 8, 4}, {0, 0, 28, 0}, {7, 7, 7, 7}}) {
    for (const bool dedup : {false, true}) {
      LayerCase c = scaling_case(4, 8, 3);
      c.options.dedup = dedup;
      c.options.selector = Selector::least_load;
      set_tokens(c, tokens);
      std::mt19937_64 routes(9);
      for (int i = 0; i < 28 * 3; ++i) {
        c.experts.push_back(static_cast<std::int32_t>(routes() % 8));
        c.gates.push_back(0.1F * static_cast<float>(routes() % 10));
      }
      const std::vector<float> over_four = testing::run(c).output;
      c.group = ProcessGroup::identity(1);
      c.topology = Topology::uniform(1);
      c.tokens_per_rank = {28};
      c.placement = std::make_shared<const Placement>(
          Placement::contiguous(PlacementVersion("placement-1"), 8, 1));
      EXPECT_EQ(over_four, testing::run(c).output);
    }
  }
}

TEST(RanksWithoutTokens, AllOfThemStillCompleteAStep) {
  for (const std::int32_t ranks : {1, 3}) {
    for (const bool dedup : {false, true}) {
      LayerCase c = scaling_case(ranks, 4, 2);
      c.options.dedup = dedup;
      set_tokens(c, std::vector<std::int32_t>(static_cast<std::size_t>(ranks), 0));
      EXPECT_TRUE(testing::run(c).output.empty());
    }
  }
}

TEST(RanksWithoutRows, SendTheirTokensAwayAndExecuteNothing) {
  LayerCase c = scaling_case(3, 3, 1);
  set_tokens(c, {1, 2, 0});
  c.experts = {2, 0, 2};
  c.gates = {1, 1, 1};
  const LayerRun run = testing::run(c);
  EXPECT_EQ(run.output, (std::vector<float>{3, 3, 3, 2, 2, 2, 9, 9, 9}));
  EXPECT_EQ(run.reports[1].received.value, 0);
  EXPECT_EQ(run.reports[1].slot_rows, (std::vector<Rows>{Rows{0}}));
}

// What a case of one column whose experts scale by id + 1 should give; the sums must be exact.
std::vector<float> weighted_by_scale(const LayerCase& c) {
  std::vector<float> expected;
  for (std::size_t route = 0; route < c.experts.size(); ++route) {
    const std::size_t token = route / static_cast<std::size_t>(c.options.topk);
    expected.resize(token + 1, 0.0F);
    expected[token] += c.gates[route] * static_cast<float>(c.experts[route] + 1) * c.hidden[token];
  }
  return expected;
}

// 16 ranks, 2304 tokens each, k = 8, all but ten tokens on the same eight experts.
TEST(HotExperts, CountsSumToEveryRouteAndEachRowRunsOnItsExpert) {
  constexpr std::int32_t ranks = 16, tokens = 2304, topk = 8, experts = 64;
  for (const Selector selector : {Selector::first, Selector::least_load}) {
    LayerCase c = scaling_case(ranks, experts, topk);
    c.options.hidden = 1;
    c.options.selector = selector;
    c.options.checks = Checks::counts;
    std::vector<float> scales(experts);
    std::iota(scales.begin(), scales.end(), 1.0F);
    c.source = testing::scaling_experts(scales, 1, DType::f32);
    std::mt19937_64 rng(3);
    c.placement = std::make_shared<const Placement>(testing::random_placement(experts, ranks, rng));
    set_tokens(c, std::vector<std::int32_t>(ranks, tokens));
    for (std::int32_t token = 0; token < ranks * tokens; ++token) {
      for (std::int32_t j = 0; j < topk; ++j) {
        c.experts.push_back(token % 3690 == 0 ? 8 + static_cast<std::int32_t>(rng() % 56) : j);
        c.gates.push_back(0.125F);
      }
    }
    const LayerRun run = testing::run(c);
    std::int64_t executed = 0;
    std::int64_t sent = 0;
    for (const StepReport& report : run.reports) {
      executed += report.received.value;
      for (const Rows rows : report.sent) sent += rows.value;
    }
    EXPECT_EQ(executed, std::int64_t{ranks} * tokens * topk);
    EXPECT_EQ(sent, executed);
    EXPECT_EQ(run.output, weighted_by_scale(c));
  }
}

TEST(Generations, AStepKeepsItsOwnWhileANewOneServes) {
  LayerCase c = scaling_case(1, 2, 1);
  set_tokens(c, {2});
  c.experts = {0, 1};
  c.gates = {1, 1};
  PlacementRegistry registry;
  testing::load_and_activate(registry, c);
  LocalGroup group(c.group);
  const auto comm = group.join(Rank{0});
  MoeLayer layer(c.options, *comm, registry, c.topology, c.source, c.runner());
  RankStep step(c, Rank{0});
  const PlacementVersion old = c.placement->version(), next("placement-2");

  Planned planned = layer.plan(layer.begin(step.routes()));
  c.placement = std::make_shared<const Placement>(Placement::contiguous(next, 2, 1));
  testing::load_and_activate(registry, c, 2);
  EXPECT_EQ(registry.state(old), GenerationState::draining);
  EXPECT_EQ(testing::fault([&] { registry.retire(old); }).code(), Code::RetireWithLiveReferences);
  EXPECT_EQ(planned.placement(), old);
  layer.combine(layer.collect(layer.give_back(layer.compute(
                    layer.receive(layer.dispatch(std::move(planned), step.hidden()))))),
                step.output());
  EXPECT_EQ(step.result(), (std::vector<float>{1, 1, 1, 4, 4, 4}));
  EXPECT_EQ(layer.report().placement, old);
  registry.retire(old);
  EXPECT_EQ(layer.forward(step.routes(), step.hidden(), step.output()).placement, next);
}

TEST(Generations, RetiredOnesReleaseTheirExperts) {
  LayerCase c = scaling_case(1, 2, 1);
  set_tokens(c, {1});
  c.experts = {0};
  c.gates = {1};
  std::vector<std::weak_ptr<const ExpertBundle>> handed_out;
  const ExpertSource source = [&](LayerId layer, ExpertId expert) {
    const auto fresh = testing::scaling_experts({1, 2}, 3, DType::f32)(layer, expert);
    handed_out.push_back(fresh);
    return fresh;
  };
  PlacementRegistry registry;
  testing::load_and_activate(registry, c);
  LocalGroup group(c.group);
  const auto comm = group.join(Rank{0});
  MoeLayer layer(c.options, *comm, registry, c.topology, source, c.runner());
  RankStep step(c, Rank{0});
  layer.forward(step.routes(), step.hidden(), step.output());
  layer.forward(step.routes(), step.hidden(), step.output());
  EXPECT_EQ(handed_out.size(), 2U) << "experts are resolved once a generation";

  const PlacementVersion old = c.placement->version();
  c.placement =
      std::make_shared<const Placement>(Placement::contiguous(PlacementVersion("next"), 2, 1));
  testing::load_and_activate(registry, c, 2);
  registry.retire(old);
  layer.forward(step.routes(), step.hidden(), step.output());
  EXPECT_TRUE(handed_out[0].expired());
  EXPECT_FALSE(handed_out[2].expired());
}

TEST(StepReports, StateReservationRowsAndTimes) {
  LayerCase c = scaling_case(2, 4, 2);
  set_tokens(c, {3, 1});
  c.experts = {0, 1, 0, 3, 2, 3, 0, 2};
  c.gates.assign(8, 1.0F);
  for (const bool dedup : {false, true}) {
    c.options.dedup = dedup;
    const StepReport report = testing::run(c).reports[0];
    EXPECT_EQ(report.tokens, 3);
    EXPECT_EQ(report.admission.accepted, 6);
    EXPECT_EQ(report.sent, (std::vector<Rows>{Rows{3}, Rows{3}}));
    EXPECT_EQ(report.payload_sent,
              (dedup ? std::vector<Rows>{Rows{2}, Rows{2}} : std::vector<Rows>{Rows{3}, Rows{3}}));
    EXPECT_EQ(report.received.value, 4);
    EXPECT_GE(report.workspace.value, 3 * 256);
    EXPECT_GT(report.handle.value, 0);
    EXPECT_GT(report.time.total.value, 0);
  }
}

}  // namespace
}  // namespace waybill
