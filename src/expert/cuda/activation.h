// Gate and up to one activated value in FP32, the same bits on every device, in every build and on
// the host: every step is one IEEE operation or one fma. Source: docs/arithmetic.md.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "waybill/expert.h"

#if defined(__CUDACC__)
#define WAYBILL_EVERYWHERE __host__ __device__ inline
#else
#define WAYBILL_EVERYWHERE inline
#endif

namespace waybill::activation {

WAYBILL_EVERYWHERE float fused(float a, float b, float c) { return std::fma(a, b, c); }

WAYBILL_EVERYWHERE float reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  return __frcp_rn(x);
#else
  return 1.0F / x;
#endif
}

// 2^n for n in [-126, 127].
WAYBILL_EVERYWHERE float power_of_two(std::int32_t n) {
  const std::int32_t bits = (n + 127) << 23;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// e^x within 2 units in the last place; 0 below -87, infinite above 88.7. NaN stays NaN.
WAYBILL_EVERYWHERE float exponential(float x) {
  if (x < -87.0F) return 0.0F;
  if (x > 88.7F) return INFINITY;
  if (x != x) return x;
  constexpr float round_to_integer = 12582912.0F;  // 1.5 * 2^23
  const float n = fused(x, 1.44269504F, round_to_integer) - round_to_integer;
  float r = fused(n, -0.693145752F, x);  // ln 2 in two parts
  r = fused(n, -1.42860677e-6F, r);
  float p = 1.38888889e-3F;  // Taylor series of e^r, |r| <= ln(2)/2
  p = fused(p, r, 8.33333333e-3F);
  p = fused(p, r, 4.16666667e-2F);
  p = fused(p, r, 1.66666667e-1F);
  p = fused(p, r, 0.5F);
  p = fused(p, r, 1.0F);
  p = fused(p, r, 1.0F);
  const auto exponent = static_cast<std::int32_t>(n);
  return exponent == 128 ? p * 2.0F * power_of_two(127) : p * power_of_two(exponent);
}

// x / (1 + e^(-alpha x))
WAYBILL_EVERYWHERE float gated(float x, float alpha) {
  return x * reciprocal(1.0F + exponential(-(alpha * x)));
}

WAYBILL_EVERYWHERE float activate(const Activation& activation, float gate, float up) {
  if (activation.kind == ActivationKind::swiglu) return gated(gate, 1.0F) * up;
  const float limit = activation.limit;  // written so that NaN stays NaN
  const float g = gate > limit ? limit : gate;
  const float u = up > limit ? limit : (up < -limit ? -limit : up);
  return (u + 1.0F) * gated(g, activation.alpha);
}

}  // namespace waybill::activation
