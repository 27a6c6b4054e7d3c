#include <gtest/gtest.h>

#include "expert/random_expert.h"
#include "property/property.h"

namespace waybill {
namespace {

constexpr Activation clamped{ActivationKind::swiglu_clamped, 1.702F, 0.75F};

void expect_close(DType dtype, const testing::Difference& difference) {
  if (dtype == DType::f32) {
    EXPECT_LE(difference.largest(), 1e-5);
  } else {
    EXPECT_LE(difference.frobenius(), 1e-2);
  }
}

struct Shape {
  std::int64_t d, ff, rows;
};

class Accuracy : public ::testing::TestWithParam<Shape> {};

TEST_P(Accuracy, WithinToleranceOfTheDirectEvaluation) {
  const auto [d, ff, rows] = GetParam();
  Random random(7);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool biases : {false, true}) {
      for (const Activation& activation : {Activation{}, clamped}) {
        const RandomExpert expert(dtype, d, ff, random, biases);
        const Elements input = random_elements(dtype, rows, d, 1, random);
        const auto bundle = ExpertBundle::pack(expert.weights, dtype);
        const Elements output = run_one(*bundle, input, dtype, nullptr, activation);
        expect_close(dtype, difference(output, expert.weights, activation, input));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Accuracy,
                         ::testing::Values(Shape{1, 1, 1}, Shape{1, 40, 300}, Shape{40, 1, 3},
                                           Shape{32, 16, 12}, Shape{33, 17, 13}, Shape{96, 64, 25},
                                           Shape{257, 300, 97}, Shape{512, 256, 5},
                                           Shape{20, 30, 1100}));

PROPERTY(AccuracyProperty, AnyShapeIsWithinToleranceOfTheDirectEvaluation) {
  Random random(static_cast<unsigned>(property::draw_bits()));
  const auto d = property::draw<std::int64_t>(1, 70);
  const auto ff = property::draw<std::int64_t>(1, 70);
  const auto rows = property::draw<std::int64_t>(0, 40);
  const auto stored = property::draw_one_of({DType::f32, DType::bf16, DType::f16});
  const auto dtype = property::draw_one_of({DType::f32, DType::bf16});
  const RandomExpert expert(stored, d, ff, random, property::draw_bool());
  const Elements input = random_elements(dtype, rows, d, 1, random);
  const auto bundle = property::draw_bool() ? ExpertBundle::pack(expert.weights, dtype)
                                            : ExpertBundle::borrow(expert.weights, dtype);
  const Elements output = run_one(*bundle, input, DType::f32);
  const testing::Difference found = difference(output, expert.weights, {}, input);
  // Of a handful of outputs, one may be a small difference of large terms.
  HOLDS(found.frobenius() <= (dtype == DType::f32 ? 1e-4 : 5e-2));
}

}  // namespace
}  // namespace waybill
