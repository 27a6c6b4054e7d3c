#include <gtest/gtest.h>

#include <limits>

#include "expert/random_expert.h"

namespace waybill {
namespace {

TEST(Bf16, WideningThenRoundingGivesEveryPatternBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float value = widen_bf16(pattern);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(widen_bf16(round_to_bf16(value))));
    } else {
      EXPECT_EQ(round_to_bf16(value), pattern);
    }
  }
}

TEST(Bf16, RoundsToTheNearerNeighbourAndTiesToEven) {
  for (std::uint32_t low = 0; low < 0x7F7F; ++low) {
    const std::uint32_t base = low << 16;
    const auto rounded = [&](std::uint32_t fraction) {
      return round_to_bf16(std::bit_cast<float>(base + fraction));
    };
    EXPECT_EQ(rounded(0x7FFF), low);
    EXPECT_EQ(rounded(0x8000), low + (low & 1));
    EXPECT_EQ(rounded(0x8001), low + 1);
    EXPECT_EQ(rounded(0xFFFF), low + 1);
  }
  EXPECT_EQ(round_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
}

TEST(Bf16, NaNWithALowPayloadStaysNaN) {
  EXPECT_TRUE(std::isnan(widen_bf16(round_to_bf16(std::bit_cast<float>(0x7F800001U)))));
  EXPECT_TRUE(std::isnan(widen_bf16(round_to_bf16(std::bit_cast<float>(0xFFFFFFFFU)))));
}

TEST(F16, WidensEveryPatternExactly) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>(bits >> 10) & 0x1F;
    const int fraction = static_cast<int>(bits) & 0x3FF;
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    const float found = widen_f16(static_cast<std::uint16_t>(bits));
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(found), fraction != 0);
      EXPECT_EQ(std::isinf(found), fraction == 0);
      continue;
    }
    const double want =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    EXPECT_EQ(found, sign * want);
    EXPECT_EQ(std::signbit(found), sign < 0);
  }
}

TEST(Element, ReadsAnyDtypeAlongTheStrides) {
  std::vector<std::int8_t> values{1, -2, 3, -4, 5, -6};
  TensorView view = TensorView::contiguous(values.data(), DType::i8, {2, 3});
  EXPECT_EQ(element(view, 1, 2), -6);
  view.shape = {3, 2};
  view.strides = {1, 3};
  EXPECT_EQ(element(view, 2, 1), -6);
  EXPECT_EQ(element(view, 1, 0), -2);

  const double f64 = 1e300;
  EXPECT_EQ(element(TensorView::contiguous(&f64, DType::f64, {1}), 0), 1e300);
  const std::uint64_t u64 = 1ULL << 40;
  EXPECT_EQ(element(TensorView::contiguous(&u64, DType::u64, {1}), 0), 0x1p40);
  const bool truth = true;
  EXPECT_EQ(element(TensorView::contiguous(&truth, DType::boolean, {1}), 0), 1);
}

TEST(Element, EightBitFloats) {
  const auto read = [](std::uint8_t bits, DType dtype) {
    return element(TensorView::contiguous(&bits, dtype, {1}), 0);
  };
  EXPECT_EQ(read(0x7E, DType::f8_e4m3), 448);
  EXPECT_EQ(read(0x01, DType::f8_e4m3), 0x1p-9);
  EXPECT_EQ(read(0xB8, DType::f8_e4m3), -1);
  EXPECT_TRUE(std::isnan(read(0x7F, DType::f8_e4m3)));
  EXPECT_EQ(read(0x7B, DType::f8_e5m2), 57344);
  EXPECT_EQ(read(0x01, DType::f8_e5m2), 0x1p-16);
  EXPECT_TRUE(std::isinf(read(0x7C, DType::f8_e5m2)));
}

}  // namespace
}  // namespace waybill
