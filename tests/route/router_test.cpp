#include "waybill/router.h"
#include "property/property.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "support/fault.h"
#include "waybill/routes.h"

namespace waybill {
namespace {

using ::testing::ElementsAre;
using testing::fault;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr RouterScore every_score[] = {RouterScore::softmax_then_topk,
                                       RouterScore::topk_then_softmax, RouterScore::sigmoid,
                                       RouterScore::topk_then_sigmoid, RouterScore::sparsemixer};

// A router whose logits are its input: an identity weight.
class LogitRouter {
 public:
  explicit LogitRouter(RouterSpec spec) : spec_(spec) {
    const auto n = static_cast<std::size_t>(spec.experts);
    weight_.assign(n * n, 0.0F);
    for (std::size_t e = 0; e < n; ++e) weight_[e * n + e] = 1.0F;
  }
  LogitRouter& selection_bias(std::vector<float> bias) {
    bias_ = std::move(bias);
    return *this;
  }
  RoutingResult operator()(const std::vector<float>& logits) const {
    const std::int64_t n = spec_.experts;
    Router router{spec_, TensorView::contiguous(weight_.data(), DType::f32, {n, n}), {}, {}};
    if (!bias_.empty()) {
      router.selection_bias = TensorView::contiguous(bias_.data(), DType::f32, {n});
    }
    return route(router, TensorView::contiguous(logits.data(), DType::f32,
                                                {static_cast<std::int64_t>(logits.size()) / n, n}));
  }

 private:
  RouterSpec spec_;
  std::vector<float> weight_, bias_;
};

TEST(Router, TiesGoToTheLowerId) {
  const LogitRouter router({.experts = 6, .topk = 3});
  EXPECT_THAT(router({1, 2, 1, 2, 1, 2}).experts, ElementsAre(1, 3, 5));
  EXPECT_THAT(router({0, 0, 0, 0, 0, 0}).experts, ElementsAre(0, 1, 2));
  const LogitRouter raw({.score = RouterScore::topk_then_softmax, .experts = 3, .topk = 2});
  EXPECT_THAT(raw({-0.0F, 0.0F, -1}).experts, ElementsAre(0, 1)) << "zeros of both signs are equal";
}

TEST(Router, SoftmaxWithoutRenormalisationKeepsProbabilities) {
  const LogitRouter router({.experts = 4, .topk = 2});
  const RoutingResult result = router({0, std::log(2.0F), std::log(3.0F), std::log(4.0F)});
  EXPECT_THAT(result.experts, ElementsAre(3, 2));
  EXPECT_NEAR(result.gates[0], 0.4F, 1e-6F);
  EXPECT_NEAR(result.gates[1], 0.3F, 1e-6F);
}

TEST(Router, SelectionBiasNeverEntersTheGate) {
  LogitRouter router({.score = RouterScore::sigmoid, .experts = 3, .topk = 1});
  router.selection_bias({0, 0, 1});
  const RoutingResult result = router({4, 0, 0});
  EXPECT_THAT(result.experts, ElementsAre(2));
  EXPECT_FLOAT_EQ(result.gates[0], 0.5F);
}

TEST(Router, ScaleComesAfterRenormalisation) {
  const LogitRouter router(
      {.score = RouterScore::sigmoid, .experts = 4, .topk = 2, .renormalize = true, .scale = 2.5F});
  const RoutingResult result = router({1, 1, -9, -9});
  EXPECT_FLOAT_EQ(result.gates[0] + result.gates[1], 2.5F);
}

// The best expert stands alone in its group; the two-best sum keeps the other group.
TEST(Router, GroupLimitGoesByTheTwoBestOfAGroup) {
  const LogitRouter router(
      {.score = RouterScore::sigmoid, .experts = 6, .topk = 2, .groups = 2, .topk_groups = 1});
  EXPECT_THAT(router({3, -9, -9, 1, 2, -9}).experts, ElementsAre(4, 3));
}

// The two best together are in the other group.
TEST(Router, GroupLimitGoesByTheBestOfAGroupWhereTheFamilySaysSo) {
  const LogitRouter router(
      {.experts = 6, .topk = 2, .groups = 2, .topk_groups = 1, .group_score = GroupScore::best});
  EXPECT_THAT(router({3, -9, -8, 2.9F, 2.9F, -9}).experts, ElementsAre(0, 2));
}

TEST(Router, RenormalisationDividesByNoLessThanItsFloor) {
  const LogitRouter router({.score = RouterScore::sigmoid,
                            .experts = 2,
                            .topk = 2,
                            .renormalize = true,
                            .renormalize_floor = 4.0F});
  const RoutingResult small = router({0, 0});
  EXPECT_FLOAT_EQ(small.gates[0], 0.5F / 4.0F);
  const LogitRouter low({.score = RouterScore::sigmoid,
                         .experts = 2,
                         .topk = 2,
                         .renormalize = true,
                         .renormalize_floor = 0.25F});
  EXPECT_FLOAT_EQ(low({0, 0}).gates[0], 0.5F);
}

// Sigmoids of large logits are all 1, so a choice by them would fall to the lower id.
TEST(Router, SigmoidOfTheChosenIsChosenByLogits) {
  const LogitRouter router({.score = RouterScore::topk_then_sigmoid, .experts = 3, .topk = 1});
  const RoutingResult result = router({40, 50, 60});
  EXPECT_THAT(result.experts, ElementsAre(2));
  EXPECT_EQ(result.gates[0], 1.0F);
  EXPECT_FLOAT_EQ(router({-1, 0, -1}).gates[0], 0.5F);
}

// Distances to the largest, relative: 0, 0.1, 0.5, then 0.44 among what is left.
TEST(Sparsemixer, GatesAreSoftmaxOverWhatComesNear) {
  const LogitRouter router(
      {.score = RouterScore::sparsemixer, .experts = 3, .topk = 2, .jitter_epsilon = 0.1F});
  const RoutingResult result = router({1.0F, 1.8F, 2.0F});
  EXPECT_THAT(result.experts, ElementsAre(2, 1));
  EXPECT_FLOAT_EQ(result.gates[0], 1 / (1 + std::exp(-0.2F)));
  EXPECT_FLOAT_EQ(result.gates[1], 1.0F) << "the first choice counts no more";
}

TEST(Sparsemixer, DistanceIsRelativeToTheLargerMagnitude) {
  const LogitRouter router(
      {.score = RouterScore::sparsemixer, .experts = 3, .topk = 1, .jitter_epsilon = 0.25F});
  // (-1 - -1.5) / 1.5 is near, (-1 - -4) / 4 is not; against the largest alone neither would be.
  EXPECT_FLOAT_EQ(router({-1.0F, -1.5F, -4.0F}).gates[0], 1 / (1 + std::exp(-0.5F)));
}

TEST(Sparsemixer, WithoutJitterOnlyEqualLogitsAreNear) {
  const LogitRouter router({.score = RouterScore::sparsemixer, .experts = 4, .topk = 2});
  const RoutingResult tied = router({0, 0, 0, -1});
  EXPECT_THAT(tied.experts, ElementsAre(0, 1));
  EXPECT_FLOAT_EQ(tied.gates[0], 1.0F / 3) << "zero over zero is no distance";
  EXPECT_FLOAT_EQ(tied.gates[1], 1.0F / 2);
  const RoutingResult apart = router({1, 2, 3, 4});
  EXPECT_EQ(apart.gates[0], 1.0F);
  EXPECT_EQ(apart.gates[1], 1.0F);
}

TEST(Router, ExpertsOfOtherGroupsAreNeverChosenWhateverTheBias) {
  LogitRouter router(
      {.score = RouterScore::sigmoid, .experts = 4, .topk = 2, .groups = 2, .topk_groups = 1});
  router.selection_bias({-9, -9, -8, -8});
  EXPECT_THAT(router({0, 0, 0, 0}).experts, ElementsAre(2, 3));
}

TEST(Router, NanLogitMakesEveryGateOfItsRowNan) {
  for (RouterScore score : every_score) {
    const LogitRouter router({.score = score, .experts = 4, .topk = 2, .renormalize = true});
    // The identity weight spreads a NaN over its whole row: 0 * NaN is NaN.
    const RoutingResult result = router({1, 2, 3, 4, 1, nan, 3, 4});
    EXPECT_THAT(std::span(result.experts).first(2), ElementsAre(3, 2));
    for (std::int32_t expert : result.experts) EXPECT_TRUE(expert >= 0 && expert < 4);
    EXPECT_TRUE(std::isfinite(result.gates[0]));
    EXPECT_TRUE(std::isnan(result.gates[2]) && std::isnan(result.gates[3]));
    EXPECT_EQ(fault([&] { Routes(2, 2, 4, result.experts, result.gates); }).code(),
              Code::GateNotFinite);
  }
}

TEST(Router, NanOfOneExpertAloneIsNotPassedOver) {
  std::vector<float> weight{1, nan, 2};
  const std::vector<float> hidden{1};
  for (RouterScore score : every_score) {
    const Router router{{.score = score, .experts = 3, .topk = 2},
                        TensorView::contiguous(weight.data(), DType::f32, {3, 1}),
                        {},
                        {}};
    const RoutingResult result =
        route(router, TensorView::contiguous(hidden.data(), DType::f32, {1, 1}));
    EXPECT_TRUE(std::isnan(result.gates[0]) && std::isnan(result.gates[1]));
  }
}

TEST(Router, TensorsOfARankThatNoViewHasAreRefused) {
  std::vector<float> weight(6, 1.0F);
  const std::vector<float> hidden(2, 1.0F);
  for (const std::int32_t rank : {-1, 7}) {
    Router router{{.experts = 3, .topk = 1},
                  TensorView::contiguous(weight.data(), DType::f32, {3, 2}),
                  {},
                  {}};
    TensorView rows = TensorView::contiguous(hidden.data(), DType::f32, {1, 2});
    rows.rank = rank;
    EXPECT_EQ(fault([&] { route(router, rows); }).code(), Code::ShapeMismatch);
    rows.rank = 2;
    router.weight.rank = rank;
    EXPECT_EQ(fault([&] { route(router, rows); }).code(), Code::ShapeMismatch);
  }
}

TEST(Router, NoTokens) {
  const LogitRouter router({.experts = 4, .topk = 2});
  EXPECT_TRUE(router({}).experts.empty());
}

struct RandomRouter {
  std::int64_t experts, width, tokens;
  std::vector<float> weight, hidden;

  RandomRouter(std::int64_t e, std::int64_t d, std::int64_t t, std::uint64_t seed)
      : experts(e), width(d), tokens(t) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<float> normal;
    weight.resize(static_cast<std::size_t>(e * d));
    hidden.resize(static_cast<std::size_t>(t * d));
    for (float& x : weight) x = normal(rng);
    for (float& x : hidden) x = normal(rng);
  }
  RoutingResult route_rows(std::int64_t begin, std::int64_t count, std::int32_t topk) const {
    const Router router{{.score = RouterScore::topk_then_softmax,
                         .experts = static_cast<std::int32_t>(experts),
                         .topk = topk},
                        TensorView::contiguous(weight.data(), DType::f32, {experts, width}),
                        {},
                        {}};
    return route(router,
                 TensorView::contiguous(hidden.data() + begin * width, DType::f32, {count, width}));
  }
};

// Direct evaluation in double of experts by their logits. Random logits differ by far more than an
// FP32 chain's error, or the shrunken case shows both.
PROPERTY(RouterProperty, AgreesWithTheDirectEvaluation) {
  const auto experts = property::draw<std::int64_t>(1, 130);
  const auto width = property::draw<std::int64_t>(1, 600);
  const auto tokens = property::draw<std::int64_t>(1, 10);
  const RandomRouter random(experts, width, tokens, property::draw_bits());
  const auto topk = static_cast<std::int32_t>(std::min<std::int64_t>(experts, 8));
  const RoutingResult result = random.route_rows(0, tokens, topk);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<double> logits(static_cast<std::size_t>(experts), 0);
    for (std::int64_t e = 0; e < experts; ++e) {
      for (std::int64_t i = 0; i < width; ++i) {
        logits[static_cast<std::size_t>(e)] +=
            double{random.hidden[static_cast<std::size_t>(t * width + i)]} *
            double{random.weight[static_cast<std::size_t>(e * width + i)]};
      }
    }
    std::vector<double> best = logits;
    std::ranges::sort(best, std::greater<>());
    double sum = 0;
    for (std::int32_t j = 0; j < topk; ++j)
      sum += std::exp(best[static_cast<std::size_t>(j)] - best[0]);
    for (std::int32_t j = 0; j < topk; ++j) {
      const auto at = static_cast<std::size_t>(t * topk + j);
      const double logit = logits[static_cast<std::size_t>(result.experts[at])];
      const double wanted = best[static_cast<std::size_t>(j)];
      HOLDS(std::abs(logit - wanted) < 1e-3);
      HOLDS(std::abs(result.gates[at] - std::exp(wanted - best[0]) / sum) < 1e-3);
    }
  }
}

// A row alone and among others gives the same bits.
PROPERTY(RouterProperty, RowDoesNotDependOnItsNeighbours) {
  const auto experts = property::draw<std::int64_t>(2, 70);
  const auto width = property::draw<std::int64_t>(1, 700);
  const auto tokens = property::draw<std::int64_t>(1, 40);
  const RandomRouter random(experts, width, tokens, property::draw_bits());
  const std::int32_t topk = 2;
  const RoutingResult together = random.route_rows(0, tokens, topk);
  const auto row = property::draw<std::int64_t>(0, tokens);
  const RoutingResult alone = random.route_rows(row, 1, topk);
  const auto begin = static_cast<std::size_t>(row * topk);
  HOLDS(std::equal(alone.experts.begin(), alone.experts.end(),
                   together.experts.begin() + static_cast<std::ptrdiff_t>(begin)));
  HOLDS(std::memcmp(alone.gates.data(), together.gates.data() + begin,
                    alone.gates.size() * sizeof(float)) == 0);
}

// A logit is the chain of fused multiply-adds from 0, so the same values in another dtype, at an
// odd address too, give the same bits.
TEST(Router, DtypeAndAddressOfEqualValuesDoNotMatter) {
  const std::int64_t experts = 5, width = 37;
  std::vector<float> weight, hidden;
  std::vector<std::byte> weight_bf16{std::byte{0}}, hidden_f16{std::byte{0}};
  const auto append = [](std::vector<std::byte>& bytes, std::uint16_t bits) {
    bytes.push_back(static_cast<std::byte>(bits & 0xFFU));
    bytes.push_back(static_cast<std::byte>(bits >> 8U));
  };
  for (std::int64_t i = 0; i < experts * width; ++i) {
    weight.push_back(static_cast<float>(i % 13 - 6) / 8);
    append(weight_bf16,
           static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(weight.back()) >> 16U));
  }
  for (std::int64_t i = 0; i < width; ++i) {
    hidden.push_back(std::ldexp(1.0F, static_cast<int>(i % 9) - 4));
    append(hidden_f16, static_cast<std::uint16_t>((i % 9 - 4 + 15) << 10));
  }
  const RouterSpec spec{.score = RouterScore::sigmoid, .experts = 5, .topk = 5};
  const RoutingResult wide =
      route({spec, TensorView::contiguous(weight.data(), DType::f32, {experts, width}), {}, {}},
            TensorView::contiguous(hidden.data(), DType::f32, {1, width}));
  const RoutingResult narrow = route(
      {spec, TensorView::contiguous(weight_bf16.data() + 1, DType::bf16, {experts, width}), {}, {}},
      TensorView::contiguous(hidden_f16.data() + 1, DType::f16, {1, width}));
  EXPECT_EQ(wide.experts, narrow.experts);
  EXPECT_EQ(wide.gates, narrow.gates);
}

}  // namespace
}  // namespace waybill
