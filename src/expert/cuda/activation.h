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

// 1 / x for x in [1, 2^126], correctly rounded.
WAYBILL_EVERYWHERE float reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return fused(y, -fused(x, y, -1.0F), y);  // what __frcp_rn does in this range, without its branch
#else
  return 1.0F / x;
#endif
}

// e^x within 2 units in the last place for x in [-87, 87].
WAYBILL_EVERYWHERE float exponential(float x) {
  constexpr float round_to_integer = 12582912.0F;  // 1.5 * 2^23: the integer is in the low bits
  const float shifted = fused(x, 1.44269504F, round_to_integer);
  const float n = shifted - round_to_integer;
  float r = fused(n, -0.693145752F, x);  // ln 2 in two parts
  r = fused(n, -1.42860677e-6F, r);
  float p = 1.38888889e-3F;  // Taylor series of e^r, |r| <= ln(2)/2
  p = fused(p, r, 8.33333333e-3F);
  p = fused(p, r, 4.16666667e-2F);
  p = fused(p, r, 1.66666667e-1F);
  p = fused(p, r, 0.5F);
  p = fused(p, r, 1.0F);
  p = fused(p, r, 1.0F);
  std::uint32_t integer, bits;
  memcpy(&integer, &shifted, sizeof integer);
  memcpy(&bits, &p, sizeof bits);
  bits += integer << 23;  // p * 2^n, a normal number
  memcpy(&p, &bits, sizeof p);
  return p;
}

// x / (1 + e^(-alpha x)), 0 where alpha x is below -87. NaN stays NaN.
WAYBILL_EVERYWHERE float gated(float x, float alpha) {
  const float exponent = -(alpha * x);
  const float bounded = std::fmin(std::fmax(exponent, -87.0F), 87.0F);
  const float r = reciprocal(1.0F + exponential(bounded));
  return x * (exponent > 87.0F ? 0.0F : r);
}

template <bool kClamped>
WAYBILL_EVERYWHERE float activate_as(const Activation& activation, float gate, float up) {
  if constexpr (!kClamped) {
    return gated(gate, 1.0F) * up;
  } else {
    const float limit = activation.limit;  // comparisons leave NaN as it is
    const float g = gate > limit ? limit : gate;
    const float u = up > limit ? limit : (up < -limit ? -limit : up);
    return gated(g, activation.alpha) * (u + 1.0F);
  }
}

// A kernel with many outputs a thread decides once instead.
WAYBILL_EVERYWHERE float activate(const Activation& activation, float gate, float up) {
  return activation.kind == ActivationKind::swiglu_clamped
             ? activate_as<true>(activation, gate, up)
             : activate_as<false>(activation, gate, up);
}

}  // namespace waybill::activation
