#include <gtest/gtest.h>

#include "expert/random_expert.h"
#include "support/fault.h"

namespace waybill {
namespace {

using testing::code_of;

TEST(ExpertBundle, HoldsLittleMoreThanTheWeights) {
  Random random(1);
  const RandomExpert expert(DType::f32, 128, 96, random);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto bundle = ExpertBundle::pack(expert.weights, dtype);
    EXPECT_EQ(bundle->resident_bytes(), 3 * 128 * 96 * size_of(dtype));
    EXPECT_FALSE(bundle->in_place());
    EXPECT_EQ(bundle->dtype(), dtype);
  }
}

TEST(ExpertBundle, BorrowedOwnsNothingAndKeepsTheOwnerAlive) {
  Random random(1);
  auto expert = std::make_shared<RandomExpert>(DType::bf16, 8, 12, random);
  const auto bundle = ExpertBundle::borrow(expert->weights, DType::bf16, expert);
  EXPECT_TRUE(bundle->in_place());
  EXPECT_EQ(bundle->resident_bytes(), 0U);
  EXPECT_EQ(bundle->hidden(), 8);
  EXPECT_EQ(bundle->ff(), 12);
  EXPECT_EQ(expert.use_count(), 2);
}

TEST(ExpertBundle, RefusesShapesThatDoNotFit) {
  Random random(1);
  const RandomExpert good(DType::f32, 6, 10, random, true);
  const auto refused = [&](auto change) {
    ExpertWeights weights = good.weights;
    change(weights);
    EXPECT_EQ(code_of([&] { ExpertBundle::pack(weights, DType::f32); }), Code::ShapeMismatch);
    EXPECT_EQ(code_of([&] { ExpertBundle::borrow(weights, DType::f32); }), Code::ShapeMismatch);
  };
  refused([](ExpertWeights& w) { w.up.shape[0] = 9; });
  refused([](ExpertWeights& w) { std::swap(w.down.shape[0], w.down.shape[1]); });
  refused([](ExpertWeights& w) { w.gate.rank = 1; });
  for (const std::int32_t rank : {-1, 0, 7}) {
    refused([&](ExpertWeights& w) { w.gate.rank = rank; });
    refused([&](ExpertWeights& w) { w.up.rank = rank; });
    refused([&](ExpertWeights& w) { w.down_bias.rank = rank; });
  }
  refused([](ExpertWeights& w) { w.gate.shape = w.up.shape = w.down.shape = {}; });
  refused([](ExpertWeights& w) { w.gate_bias.shape[0] = 6; });
  refused([](ExpertWeights& w) { w.up_bias.shape[0] = 11; });
  refused([](ExpertWeights& w) { w.down_bias.shape[0] = 10; });
}

TEST(ExpertBundle, RefusesOtherDtypes) {
  Random random(1);
  const RandomExpert good(DType::f32, 6, 10, random);
  for (const DType dtype : {DType::f16, DType::f64, DType::f8_e4m3}) {
    EXPECT_EQ(code_of([&] { ExpertBundle::pack(good.weights, dtype); }), Code::DtypeMismatch);
  }
  ExpertWeights weights = good.weights;
  weights.down.dtype = DType::f8_e4m3;
  EXPECT_EQ(code_of([&] { ExpertBundle::pack(weights, DType::f32); }), Code::DtypeMismatch);
}

TEST(ExpertBundle, RefusesMemoryOfAnotherDevice) {
  Random random(1);
  const RandomExpert good(DType::f32, 6, 10, random);
  ExpertWeights weights = good.weights;
  weights.up.device = {DeviceKind::cuda, 0};
  EXPECT_EQ(code_of([&] { ExpertBundle::pack(weights, DType::f32); }), Code::DeviceUnavailable);
}

}  // namespace
}  // namespace waybill
