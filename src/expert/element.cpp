#include <cmath>
#include <cstdint>
#include <limits>

#include "base/narrow_float.h"
#include "waybill/expert.h"

namespace waybill {
namespace {

// OCP 8-bit formats. e4m3 has no infinity and one NaN pattern; e5m2 is the upper byte of an f16.
double widen_e4m3(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 0xF;
  const int fraction = bits & 0x7;
  const double sign = (bits & 0x80) != 0 ? -1.0 : 1.0;
  if (exponent == 0xF && fraction == 0x7) return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, -9);
  return sign * std::ldexp(8 + fraction, exponent - 10);
}

double widen_e5m2(std::uint8_t bits) { return widen_f16(static_cast<std::uint16_t>(bits << 8)); }

}  // namespace

double element(const TensorView& view, std::int64_t i, std::int64_t j) {
  const std::int64_t at = i * view.strides[0] + j * view.strides[1];
  switch (view.dtype) {
    case DType::f64: return view.as<const double>()[at];
    case DType::f32: return view.as<const float>()[at];
    case DType::f16: return widen_f16(view.as<const std::uint16_t>()[at]);
    case DType::bf16: return widen_bf16(view.as<const std::uint16_t>()[at]);
    case DType::f8_e4m3: return widen_e4m3(view.as<const std::uint8_t>()[at]);
    case DType::f8_e5m2: return widen_e5m2(view.as<const std::uint8_t>()[at]);
    case DType::i64: return static_cast<double>(view.as<const std::int64_t>()[at]);
    case DType::i32: return view.as<const std::int32_t>()[at];
    case DType::i16: return view.as<const std::int16_t>()[at];
    case DType::i8: return view.as<const std::int8_t>()[at];
    case DType::u64: return static_cast<double>(view.as<const std::uint64_t>()[at]);
    case DType::u32: return view.as<const std::uint32_t>()[at];
    case DType::u16: return view.as<const std::uint16_t>()[at];
    case DType::u8:
    case DType::boolean: return view.as<const std::uint8_t>()[at];
  }
  return 0;
}

}  // namespace waybill
