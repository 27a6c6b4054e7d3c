#include "expert/kernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/narrow_float.h"
#include "base/simd_targets.h"
#include "expert/panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "expert/kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
//
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace waybill::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::CappedTag<float, 16>;
using Bits = hn::Rebind<std::uint32_t, Lanes>;
using Floats = hn::Vec<Lanes>;

constexpr std::size_t lanes = hn::MaxLanes(Lanes());
constexpr auto half = static_cast<std::size_t>(panel_lanes);
constexpr auto columns_step = static_cast<std::size_t>(panel_columns);
constexpr std::size_t cache_line = 64;

// Accumulators for two vectors a row must fit the register file beside the weights.
constexpr std::size_t block_rows = lanes == 16 || HWY_TARGET == HWY_NEON ? 12 : 6;

// One vector of lo columns and the same of hi columns of a step.
struct F32Steps {
  static constexpr std::size_t bytes = columns_step * sizeof(float);
  static HWY_INLINE void load(const std::byte* step, std::size_t lane, Floats& lo, Floats& hi) {
    const auto* floats = reinterpret_cast<const float*>(step);
    lo = hn::Load(Lanes(), floats + lane);
    hi = hn::Load(Lanes(), floats + half + lane);
  }
};

struct Bf16Steps {
  static constexpr std::size_t bytes = columns_step * sizeof(std::uint16_t);
  static HWY_INLINE void load(const std::byte* step, std::size_t lane, Floats& lo, Floats& hi) {
    const auto words = hn::Load(Bits(), reinterpret_cast<const std::uint32_t*>(step) + lane);
    lo = hn::BitCast(Lanes(), hn::ShiftLeft<16>(words));
    hi = hn::BitCast(Lanes(), hn::And(words, hn::Set(Bits(), 0xFFFF0000U)));
  }
};

template <class Steps, std::size_t rows>
void multiply_rows(const float* HWY_RESTRICT x, const std::byte* HWY_RESTRICT w, std::size_t depth,
                   float* HWY_RESTRICT acc, const std::byte* ahead, std::size_t ahead_stride) {
  const Lanes d;
  for (std::size_t lane = 0; lane < half; lane += lanes) {
    Floats lo[rows];
    Floats hi[rows];
    HWY_UNROLL(16)
    for (std::size_t r = 0; r < rows; ++r) {
      lo[r] = hn::Load(d, acc + r * columns_step + lane);
      hi[r] = hn::Load(d, acc + r * columns_step + half + lane);
    }
    for (std::size_t k = 0; k < depth; ++k) {
      Floats w_lo;
      Floats w_hi;
      Steps::load(w + k * Steps::bytes, lane, w_lo, w_hi);
      __builtin_prefetch(ahead + k * ahead_stride, 0, 2);
      if (Steps::bytes > cache_line) {
        __builtin_prefetch(ahead + k * ahead_stride + cache_line, 0, 2);
      }
      HWY_UNROLL(16)
      for (std::size_t r = 0; r < rows; ++r) {
        const Floats value = hn::Set(d, x[k * rows + r]);
        lo[r] = hn::MulAdd(value, w_lo, lo[r]);
        hi[r] = hn::MulAdd(value, w_hi, hi[r]);
      }
    }
    HWY_UNROLL(16)
    for (std::size_t r = 0; r < rows; ++r) {
      hn::Store(lo[r], d, acc + r * columns_step + lane);
      hn::Store(hi[r], d, acc + r * columns_step + half + lane);
    }
  }
}

template <class Steps>
void multiply(const float* x, std::int64_t rows, const std::byte* w, std::int64_t depth, float* acc,
              std::span<const std::byte> ahead) {
  using Rows = decltype(&multiply_rows<Steps, 1>);
  static constexpr auto by_rows = []<std::size_t... r>(std::index_sequence<r...>) {
    return std::array<Rows, sizeof...(r)>{&multiply_rows<Steps, r + 1>...};
  }
  (std::make_index_sequence<block_rows>());
  const auto k = static_cast<std::size_t>(depth);
  by_rows[static_cast<std::size_t>(rows) - 1](x, w, k, acc, ahead.data(), ahead.size() / k);
}

void widen(const std::byte* steps, std::int64_t depth, float* out) {
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::size_t lane = 0; lane < half; lane += lanes) {
      Floats lo;
      Floats hi;
      Bf16Steps::load(steps, lane, lo, hi);
      hn::Store(lo, Lanes(), out + lane);
      hn::Store(hi, Lanes(), out + half + lane);
    }
    steps += Bf16Steps::bytes;
    out += columns_step;
  }
}

float widened(float value) { return value; }
float widened(std::uint16_t bf16) { return widen_bf16(bf16); }

// A stretch of the tile at a time, so that the rows that share its lines find them in cache.
template <class T>
void load_tile_of(std::span<const std::byte* const> rows, std::size_t depth, float* tile) {
  constexpr std::size_t stretch = 128;
  for (std::size_t first = 0; first < depth; first += stretch) {
    const std::size_t last = std::min(depth, first + stretch);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const auto* row = reinterpret_cast<const T*>(rows[r]);
      for (std::size_t k = first; k < last; ++k) tile[k * rows.size() + r] = widened(row[k]);
    }
  }
}

void load_tile(std::span<const std::byte* const> rows, DType dtype, std::int64_t depth,
               float* tile) {
  const auto k = static_cast<std::size_t>(depth);
  if (dtype == DType::bf16) {
    load_tile_of<std::uint16_t>(rows, k, tile);
  } else {
    load_tile_of<float>(rows, k, tile);
  }
}

// To nearest even, kept as a float; a NaN stays quiet.
Floats round_to_bf16(Floats value) {
  const Lanes d;
  const Bits bits;
  const auto raw = hn::BitCast(bits, value);
  const auto odd = hn::And(hn::ShiftRight<16>(raw), hn::Set(bits, 1));
  const auto rounded = hn::Add(raw, hn::Add(odd, hn::Set(bits, 0x7FFF)));
  const auto quiet = hn::Or(raw, hn::Set(bits, 0x400000));
  const auto chosen = hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(value)), quiet, rounded);
  return hn::BitCast(d, hn::And(chosen, hn::Set(bits, 0xFFFF0000U)));
}

Floats rounded(Floats value, DType dtype) {
  return dtype == DType::bf16 ? round_to_bf16(value) : value;
}

// value * sigmoid(alpha * value). The exponential is of a negative number on both branches, so it
// can't overflow.
Floats gated(Floats value, float alpha) {
  const Lanes d;
  const Floats z = hn::Mul(value, hn::Set(d, alpha));
  const Floats e = hn::Exp(d, hn::Neg(hn::Abs(z)));
  const Floats numerator = hn::IfThenElse(hn::Lt(z, hn::Zero(d)), hn::Mul(value, e), value);
  return hn::Div(numerator, hn::Add(hn::Set(d, 1.0F), e));
}

// Comparisons instead of Min and Max: a NaN passes through.
Floats at_most(Floats value, float limit) {
  const Floats bound = hn::Set(Lanes(), limit);
  return hn::IfThenElse(hn::Gt(value, bound), bound, value);
}
Floats at_least(Floats value, float limit) {
  const Floats bound = hn::Set(Lanes(), limit);
  return hn::IfThenElse(hn::Lt(value, bound), bound, value);
}

Floats activated(const Activation& activation, Floats gate, Floats up) {
  if (activation.kind == ActivationKind::swiglu) return hn::Mul(gated(gate, 1.0F), up);
  const Floats clamped_gate = at_most(gate, activation.limit);
  const Floats clamped_up = at_least(at_most(up, activation.limit), -activation.limit);
  const Floats glu = gated(clamped_gate, activation.alpha);
  return hn::Mul(hn::Add(clamped_up, hn::Set(Lanes(), 1.0F)), glu);
}

Floats biased(const float* acc, const float* bias, std::size_t lane) {
  const Floats sum = hn::Load(Lanes(), acc + lane);
  return bias == nullptr ? sum : hn::Add(sum, hn::LoadU(Lanes(), bias + lane));
}

void activate(const float* acc, std::int64_t rows, const float* bias, std::int64_t columns,
              const Activation& activation, DType dtype, float* tile) {
  alignas(64) float out[half];
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::size_t lane = 0; lane < half; lane += lanes) {
      const Floats h =
          activated(activation, biased(acc, bias, lane), biased(acc, bias, half + lane));
      hn::Store(rounded(h, dtype), Lanes(), out + lane);
    }
    for (std::int64_t c = 0; c < columns; ++c) tile[c * rows + r] = out[c];
    acc += columns_step;
  }
}

void store_row(const float* values, std::int64_t columns, DType dtype, std::byte* row) {
  if (dtype == DType::f32) {
    std::memcpy(row, values, static_cast<std::size_t>(columns) * sizeof(float));
    return;
  }
  auto* out = reinterpret_cast<std::uint16_t*>(row);
  for (std::int64_t c = 0; c < columns; ++c) {
    std::uint32_t bits;
    std::memcpy(&bits, values + c, sizeof(bits));
    out[c] = static_cast<std::uint16_t>(bits >> 16);
  }
}

void store(const float* acc, const float* bias, std::int64_t columns, DType dtype,
           std::span<std::byte* const> rows) {
  alignas(64) float out[columns_step];
  for (std::byte* row : rows) {
    for (std::size_t lane = 0; lane < columns_step; lane += lanes) {
      hn::Store(rounded(biased(acc, bias, lane), dtype), Lanes(), out + lane);
    }
    store_row(out, columns, dtype, row);
    acc += columns_step;
  }
}

const CpuKernels& table() {
  static const CpuKernels kernels = {
      .target = hwy::TargetName(HWY_TARGET),
      .block_rows = block_rows,
      .multiply_f32 = &multiply<F32Steps>,
      .multiply_bf16 = &multiply<Bf16Steps>,
      .widen = &widen,
      .load_tile = &load_tile,
      .activate = &activate,
      .store = &store,
  };
  return kernels;
}

}  // namespace waybill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace waybill {

HWY_EXPORT(table);

const CpuKernels& cpu_kernels() { return HWY_DYNAMIC_DISPATCH(table)(); }

std::string_view cpu_kernel_target() { return cpu_kernels().target; }

std::vector<std::int64_t> runnable_kernel_targets() {
  const std::int64_t runnable = (hwy::SupportedTargets() | HWY_STATIC_TARGET) & HWY_TARGETS;
  std::vector<std::int64_t> targets;
  for (std::int64_t left = runnable; left != 0; left &= left - 1) targets.push_back(left & -left);
  return targets;
}

}  // namespace waybill
#endif
