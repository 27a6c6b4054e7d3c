#include <gtest/gtest.h>

#include <limits>

#include "expert/random_expert.h"

namespace waybill {
namespace {

constexpr float largest = std::numeric_limits<float>::max();

// An expert of one element whose gate is its input, whose up is `up` and whose down is 1.
struct OneElement {
  float gate_weight = 1, up_weight = 0, up_bias, down_weight = 1;
  std::shared_ptr<const ExpertBundle> bundle;

  explicit OneElement(float up) : up_bias(up) {
    ExpertWeights w;
    w.gate = TensorView::contiguous(&gate_weight, DType::f32, {1, 1});
    w.up = TensorView::contiguous(&up_weight, DType::f32, {1, 1});
    w.down = TensorView::contiguous(&down_weight, DType::f32, {1, 1});
    w.up_bias = TensorView::contiguous(&up_bias, DType::f32, {1});
    bundle = ExpertBundle::pack(w, DType::f32);
  }
  Elements operator()(const Elements& gates, const Activation& activation = {}) const {
    return run_one(*bundle, gates, DType::f32, nullptr, activation);
  }
};

Elements column(std::span<const float> values) {
  Elements e = Elements::zeros(DType::f32, std::ssize(values), 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    e.set(static_cast<std::int64_t>(i), 0, values[i]);
  }
  return e;
}

TEST(Activation, SiluIsAccurateOverTheWholeRange) {
  std::vector<float> gates;
  for (std::uint32_t bits = 0; bits < 0x7F800000U; bits += 0x7FFF1U) {
    gates.push_back(std::bit_cast<float>(bits));
    gates.push_back(-gates.back());
  }
  const Elements output = OneElement(1)(column(gates));
  for (std::size_t i = 0; i < gates.size(); ++i) {
    const double gate = gates[i];
    const double want = gate / (1 + std::exp(-gate));
    const double found = element(output.view, static_cast<std::int64_t>(i));
    // Below the normal numbers the last bit is what counts: exp(gate) has few bits there.
    EXPECT_NEAR(found, want, 4e-7 * std::abs(want) + 128 * 0x1p-149) << gate;
  }
}

TEST(Activation, LargestGatesDoNotOverflowToNaN) {
  const Elements output = OneElement(1)(column(std::vector{largest, -largest}));
  EXPECT_EQ(element(output.view, 0), largest);
  EXPECT_EQ(element(output.view, 1), 0);
}

TEST(Activation, ClampBoundsTheGateFromAboveAndUpOnBothSides) {
  const Activation clamped{ActivationKind::swiglu_clamped, 1.702F, 7};
  const auto glu = [&](double gate) { return gate / (1 + std::exp(-double{1.702F} * gate)); };
  const Elements gates = column(std::vector{100.0F, 7.0F, -100.0F, 2.0F, largest});
  for (const auto& [up, bounded] : {std::pair{50.0F, 7.0}, {-50.0F, -7.0}, {1.5F, 1.5}}) {
    const Elements output = OneElement(up)(gates, clamped);
    const double scale = bounded + 1;
    EXPECT_NEAR(element(output.view, 0), scale * glu(7), 1e-5);
    EXPECT_NEAR(element(output.view, 1), scale * glu(7), 1e-5);
    EXPECT_NEAR(element(output.view, 2), scale * glu(-100), 1e-30);  // no lower bound for the gate
    EXPECT_NEAR(element(output.view, 3), scale * glu(2), 1e-5);
    EXPECT_NEAR(element(output.view, 4), scale * glu(7), 1e-5);
  }
}

TEST(Activation, ClampKeepsNaN) {
  const Activation clamped{ActivationKind::swiglu_clamped, 1.702F, 7};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(element(OneElement(1)(column(std::vector{nan}), clamped).view, 0)));
  EXPECT_TRUE(std::isnan(element(OneElement(nan)(column(std::vector{1.0F}), clamped).view, 0)));
}

}  // namespace
}  // namespace waybill
