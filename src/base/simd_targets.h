// The instruction sets that SIMD code is compiled for. One list, since one target name stands for
// all kernels in the ranks' agreement. Included before any Highway header.
#pragma once

// AVX2, AVX-512 and NEON have fused multiply-add; older sets run Highway's portable code. Scalable
// vectors can't stand in accumulator arrays.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
