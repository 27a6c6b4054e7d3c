// What a tensor core computes for bf16 operands and an FP32 sum, bit for bit, on finite inputs: 16
// products and the sum at a time, each cut off (towards zero) to a multiple of 2^-25 of the largest
// exponent among them, added exactly, cut off to FP32. Measured, see docs/decisions/0003.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <utility>

namespace waybill::tensor_core {

// Fraction bits that the alignment keeps, and the exponent below which it never goes.
inline constexpr int fraction_bits = 25;
inline constexpr int lowest_exponent = -133;

// (-1)^negative * magnitude * 2^exponent; `top` is the exponent that takes part in the alignment.
struct Term {
  bool negative = false;
  std::int64_t magnitude = 0;
  int exponent = 0;
  int top = lowest_exponent;
};

// Exponents are the factors' own: a product in [2, 4) isn't normalised first.
inline Term product(std::uint16_t a, std::uint16_t b) {
  const auto parts = [](std::uint16_t x) {
    const int field = (x >> 7) & 0xff;
    const int significand = (x & 0x7f) | (field != 0 ? 0x80 : 0);
    return std::pair{significand, std::max(field, 1) - 127};
  };
  const auto [sa, ea] = parts(a);
  const auto [sb, eb] = parts(b);
  const std::int64_t magnitude = std::int64_t{sa} * sb;
  return {.negative = ((a ^ b) >> 15) != 0,
          .magnitude = magnitude,
          .exponent = ea + eb - 14,
          .top = magnitude != 0 ? ea + eb : lowest_exponent};
}

inline Term addend(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int field = static_cast<int>((bits >> 23) & 0xff);
  const int exponent = std::max(field, 1) - 127;
  const std::int64_t magnitude = (bits & 0x7fffff) | (field != 0 ? 0x800000 : 0);
  return {.negative = (bits >> 31) != 0,
          .magnitude = magnitude,
          .exponent = exponent - 23,
          .top = magnitude != 0 ? exponent : lowest_exponent};
}

// The term cut off to a multiple of 2^unit, in units.
inline std::int64_t aligned(const Term& term, int unit) {
  const int shift = term.exponent - unit;
  const std::int64_t units = shift >= 0    ? term.magnitude << shift
                             : shift > -63 ? term.magnitude >> -shift
                                           : 0;
  return term.negative ? -units : units;
}

// units * 2^unit cut off to FP32.
inline float cut_to_float(std::int64_t units, int unit) {
  const std::int64_t magnitude = std::abs(units);
  const int width = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(magnitude)));
  const int cut = std::max({width - 24, -149 - unit, 0});
  const std::int64_t kept = cut > 62 ? 0 : magnitude >> cut;
  if (kept == 0) return 0.0F;
  const double value = std::ldexp(static_cast<double>(kept), unit + cut);
  const float rounded = value > std::numeric_limits<float>::max()
                            ? std::numeric_limits<float>::infinity()
                            : static_cast<float>(value);
  return units < 0 ? -rounded : rounded;
}

// One m16n8k16 step of one output.
inline float step(float sum, std::span<const std::uint16_t, 16> a,
                  std::span<const std::uint16_t, 16> b) {
  std::array<Term, 17> terms;
  for (std::size_t i = 0; i < 16; ++i) terms[i] = product(a[i], b[i]);
  terms[16] = addend(sum);
  int top = lowest_exponent;
  for (const Term& term : terms) top = std::max(top, term.top);
  const int unit = top - fraction_bits;
  std::int64_t units = 0;
  for (const Term& term : terms) units += aligned(term, unit);
  return cut_to_float(units, unit);
}

// A whole output: K ascending in steps of 16, the last one padded with zeros.
inline float dot(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b) {
  float sum = 0.0F;
  for (std::size_t k = 0; k < a.size(); k += 16) {
    std::array<std::uint16_t, 16> x{}, y{};
    const std::size_t n = std::min<std::size_t>(16, a.size() - k);
    std::ranges::copy(a.subspan(k, n), x.begin());
    std::ranges::copy(b.subspan(k, n), y.begin());
    sum = step(sum, x, y);
  }
  return sum;
}

}  // namespace waybill::tensor_core
