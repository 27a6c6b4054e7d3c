// Elements of a tensor as FP32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "waybill/tensor.h"

namespace waybill {

inline float bf16_as_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline float f16_as_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t magnitude = (bits & 0x7FFFU) << 13;
  if ((bits & 0x7C00U) == 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | magnitude);
  // The exponent biases differ by 112; the product also normalises subnormals, exactly.
  const float value = std::bit_cast<float>(magnitude) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

template <class Widen>
void widen_16_bits(const std::byte* in, std::span<float> out, Widen as_float) {
  for (float& value : out) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, in, sizeof bits);
    in += sizeof bits;
    value = as_float(bits);
  }
}

// Fills `out` from element `first` of a contiguous tensor of f32, bf16 or f16, which may lie at any
// address: files don't promise alignment.
inline void widen(const TensorView& tensor, std::size_t first, std::span<float> out) {
  const auto* in = static_cast<const std::byte*>(tensor.data) + first * size_of(tensor.dtype);
  switch (tensor.dtype) {
    case DType::bf16:
      return widen_16_bits(in, out, [](std::uint16_t bits) { return bf16_as_float(bits); });
    case DType::f16:
      return widen_16_bits(in, out, [](std::uint16_t bits) { return f16_as_float(bits); });
    default: std::memcpy(out.data(), in, out.size_bytes());
  }
}

}  // namespace waybill
