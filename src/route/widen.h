// Elements of a tensor as FP32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/narrow_float.h"
#include "waybill/tensor.h"

namespace waybill {

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
      return widen_16_bits(in, out, [](std::uint16_t bits) { return widen_bf16(bits); });
    case DType::f16:
      return widen_16_bits(in, out, [](std::uint16_t bits) { return widen_f16(bits); });
    default: std::memcpy(out.data(), in, out.size_bytes());
  }
}

}  // namespace waybill
