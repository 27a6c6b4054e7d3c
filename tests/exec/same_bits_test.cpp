// One layer's output is bitwise the same however its ranks, slots, replicas and exchange are set
// up.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "exec/layer_case.h"
#include "property/property.h"
#include "support/random_placement.h"

namespace waybill {
namespace {

using testing::LayerCase;

constexpr std::int32_t experts = 9, topk = 3, hidden = 21, ff = 10;

std::int32_t below(std::mt19937_64& rng, std::int32_t limit) {
  return std::uniform_int_distribution(0, limit - 1)(rng);
}

float gaussian(std::mt19937_64& rng) { return std::normal_distribution<float>()(rng); }

// Tokens with dropped routes, repeated experts and tokens without any route.
LayerCase random_layer(std::mt19937_64& rng, std::int32_t tokens, DType dtype) {
  LayerCase c;
  c.options.hidden = hidden;
  c.options.experts = experts;
  c.options.topk = topk;
  c.options.dtype = dtype;
  c.source = testing::random_experts(experts, hidden, ff, dtype, rng());
  for (std::int32_t i = 0; i < tokens * topk; ++i) {
    c.experts.push_back(below(rng, 8) == 0 ? dropped_route : below(rng, experts));
    c.gates.push_back(gaussian(rng));
  }
  for (std::int32_t i = 0; i < tokens * hidden; ++i) {
    c.hidden.push_back(gaussian(rng));
    c.shared.push_back(gaussian(rng));
  }
  if (below(rng, 2) == 0) c.shared.clear();
  return c;
}

void on_one_rank(LayerCase& c) {
  c.group = ProcessGroup::identity(1);
  c.topology = Topology::uniform(1);
  c.placement =
      std::make_shared<const Placement>(Placement::contiguous(PlacementVersion("one"), experts, 1));
  c.tokens_per_rank = {c.tokens()};
}

void over_ranks(LayerCase& c, std::int32_t ranks, std::mt19937_64& rng) {
  c.group = testing::random_group(ranks, rng);
  std::vector<NodeId> nodes{NodeId{0}};
  for (std::int32_t rank = 1; rank < ranks; ++rank) {
    nodes.emplace_back(nodes.back().value + below(rng, 2));
  }
  c.topology = Topology::of(nodes);
  c.placement = std::make_shared<const Placement>(testing::random_placement(experts, ranks, rng));
  c.tokens_per_rank.assign(static_cast<std::size_t>(ranks), 0);
  for (std::int32_t token = 0; token < c.tokens(); ++token) {
    ++c.tokens_per_rank[static_cast<std::size_t>(below(rng, ranks))];
  }
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<std::uint32_t, float>,
                            std::bit_cast<std::uint32_t, float>);
}

PROPERTY(SameBits, ForAnyRanksPlacementSelectorPeerOrderDedupAndChecks) {
  std::mt19937_64 rng(property::draw_bits());
  const auto dtype = property::draw_one_of({DType::f32, DType::bf16});
  LayerCase c = random_layer(rng, property::draw(0, 40), dtype);
  on_one_rank(c);
  const std::vector<float> reference = testing::run(c).output;
  for (const std::int32_t ranks : {1, 2, 3, 4, 6, 8}) {
    over_ranks(c, ranks, rng);
    c.options.selector =
        property::draw_one_of({Selector::first, Selector::round_robin, Selector::least_load,
                               Selector::locality, Selector::hash});
    c.options.dedup = property::draw_bool();
    c.options.checks = property::draw_one_of({Checks::off, Checks::counts, Checks::full});
    HOLDS(same_bits(testing::run(c).output, reference));
  }
}

// Σ_j gate * y_expert(hidden) in double precision, straight from the definition.
PROPERTY(SameBits, AndNearTheDirectEvaluation) {
  std::mt19937_64 rng(property::draw_bits());
  LayerCase c = random_layer(rng, property::draw(1, 20), DType::f32);
  const std::vector<float> scales{0.5F, 1, 2, 3, 4, 5, 6, 7, 8};
  c.source = testing::scaling_experts(scales, hidden, DType::f32);
  c.runner = testing::make_scaling_runner;
  over_ranks(c, 4, rng);
  c.options.dedup = property::draw_bool();
  const std::vector<float> output = testing::run(c).output;
  for (std::int32_t token = 0; token < c.tokens(); ++token) {
    double weight = 0;
    double magnitude = 0;
    for (std::int32_t j = 0; j < topk; ++j) {
      const auto route = static_cast<std::size_t>(token * topk + j);
      if (c.experts[route] == dropped_route) continue;
      const double term =
          static_cast<double>(c.gates[route]) * static_cast<double>(scales[c.experts[route]]);
      weight += term;
      magnitude += std::abs(term);
    }
    for (std::int32_t i = 0; i < hidden; ++i) {
      const auto at = static_cast<std::size_t>(token * hidden + i);
      const double x = static_cast<double>(c.hidden[at]);
      const double shared = c.shared.empty() ? 0.0 : static_cast<double>(c.shared[at]);
      const double bound = 1e-6 * (magnitude * std::abs(x) + std::abs(shared));
      HOLDS(std::abs(static_cast<double>(output[at]) - (weight * x + shared)) <= bound);
    }
  }
}

// Gates are powers of two, so that products are exact and only the order of the sum decides its
// bits.
TEST(Combine, AddsATokensRowsInRouteSlotOrder) {
  constexpr std::int32_t tokens = 64, slots = 5;
  std::mt19937_64 rng(12);
  LayerCase c;
  c.options.hidden = hidden;
  c.options.experts = experts;
  c.options.topk = slots;
  std::vector<float> scales(experts);
  std::ranges::generate(scales, [&] { return gaussian(rng); });
  c.source = testing::scaling_experts(scales, hidden, DType::f32);
  c.runner = testing::make_scaling_runner;
  for (std::int32_t i = 0; i < tokens * slots; ++i) {
    c.experts.push_back(below(rng, experts));
    c.gates.push_back(std::ldexp(below(rng, 2) == 0 ? 1.0F : -1.0F, below(rng, 12)));
  }
  for (std::int32_t i = 0; i < tokens * hidden; ++i) c.hidden.push_back(gaussian(rng));

  const auto sum_in = [&](std::vector<std::int32_t> order) {
    std::vector<float> sums(c.hidden.size(), 0.0F);
    for (std::size_t at = 0; at < sums.size(); ++at) {
      const std::size_t first = at / hidden * slots;
      for (const std::int32_t j : order) {
        const std::size_t route = first + static_cast<std::size_t>(j);
        const float row = scales[static_cast<std::size_t>(c.experts[route])] * c.hidden[at];
        sums[at] += c.gates[route] * row;
      }
    }
    return sums;
  };
  for (const bool dedup : {false, true}) {
    over_ranks(c, 4, rng);
    c.options.dedup = dedup;
    const std::vector<float> output = testing::run(c).output;
    EXPECT_TRUE(same_bits(output, sum_in({0, 1, 2, 3, 4})));
    EXPECT_FALSE(same_bits(output, sum_in({0, 2, 1, 3, 4})));
    EXPECT_FALSE(same_bits(output, sum_in({0, 1, 2, 4, 3})));
    EXPECT_FALSE(same_bits(output, sum_in({4, 3, 2, 1, 0})));
  }
}

// `routed` has the sum before the shared rows, which are added last.
TEST(Combine, GivesTheSumBeforeTheSharedRowsToo) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::mt19937_64 rng(13);
    LayerCase c = random_layer(rng, 7, dtype);
    c.shared.resize(c.hidden.size());
    std::ranges::generate(c.shared, [&] { return gaussian(rng); });
    on_one_rank(c);
    PlacementRegistry registry;
    testing::load_and_activate(registry, c);
    LocalGroup group(c.group);
    const auto comm = group.join(Rank{0});
    MoeLayer layer(c.options, *comm, registry, c.topology, c.source);
    testing::RankStep step(c, Rank{0});
    std::vector<float> output(c.hidden.size()), routed(c.hidden.size()), alone(c.hidden.size());
    const auto rows = [&](std::vector<float>& values) {
      return TensorView::contiguous(values.data(), DType::f32, {c.tokens(), hidden});
    };
    const TensorView routed_rows = rows(routed);
    layer.forward(step.routes(), step.hidden(), rows(output), step.shared(), &routed_rows);
    layer.forward(step.routes(), step.hidden(), rows(alone));
    EXPECT_TRUE(same_bits(routed, alone));
    std::ranges::transform(routed, c.shared, routed.begin(), std::plus<>());
    EXPECT_TRUE(same_bits(output, routed));
  }
}

// 16 tokens alone, then the same 16 with 48 others.
TEST(SameBitsOfABatch, RowsDontDependOnTheirNeighbours) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::mt19937_64 rng(11);
    LayerCase many = random_layer(rng, 64, dtype);
    many.shared.clear();
    over_ranks(many, 3, rng);
    LayerCase few = many;
    few.experts.resize(16 * topk);
    few.gates.resize(16 * topk);
    few.hidden.resize(16 * hidden);
    few.tokens_per_rank = {5, 4, 7};
    std::vector<float> rows = testing::run(many).output;
    rows.resize(16 * hidden);
    EXPECT_TRUE(same_bits(testing::run(few).output, rows));
  }
}

}  // namespace
}  // namespace waybill
