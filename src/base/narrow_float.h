// 16-bit floating-point formats as bits: exact widening, and narrowing to nearest even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace waybill {

inline float widen_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// A NaN stays a quiet NaN of the same sign.
inline std::uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

inline float widen_f16(std::uint16_t bits) {
  const std::uint32_t magnitude = (bits & 0x7FFFU) << 13;
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  if ((bits & 0x7C00U) == 0x7C00U) return std::bit_cast<float>(sign | magnitude | 0x7F800000U);
  // The exponent biases differ by 112; the product also normalises subnormals, exactly.
  return std::bit_cast<float>(
      sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F));
}

}  // namespace waybill
