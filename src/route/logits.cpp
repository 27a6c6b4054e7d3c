#include "route/logits.h"

#include <hwy/aligned_allocator.h>
#include <algorithm>
#include <array>
#include <functional>

#include "base/simd_targets.h"
#include "route/widen.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "route/logits.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace waybill::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::CappedTag<float, 16>;
constexpr std::size_t lanes = hn::MaxLanes(Lanes());

// Adds depth steps to the logits of `rows` tokens for two vectors of experts. Twelve accumulators
// at six rows hide the latency of the fused multiply-add and still fit sixteen registers.
template <std::size_t rows>
void accumulate_rows(const float* x, std::size_t x_stride, const float* w, std::size_t w_stride,
                     std::size_t depth, float* out, std::size_t out_stride) {
  const Lanes d;
  hn::Vec<Lanes> lo[rows];
  hn::Vec<Lanes> hi[rows];
  for (std::size_t r = 0; r < rows; ++r) {
    lo[r] = hn::LoadU(d, out + r * out_stride);
    hi[r] = hn::LoadU(d, out + r * out_stride + lanes);
  }
  for (std::size_t i = 0; i < depth; ++i) {
    const auto w_lo = hn::Load(d, w + i * w_stride);
    const auto w_hi = hn::Load(d, w + i * w_stride + lanes);
    for (std::size_t r = 0; r < rows; ++r) {
      const auto value = hn::Set(d, x[r * x_stride + i]);
      lo[r] = hn::MulAdd(value, w_lo, lo[r]);
      hi[r] = hn::MulAdd(value, w_hi, hi[r]);
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    hn::StoreU(lo[r], d, out + r * out_stride);
    hn::StoreU(hi[r], d, out + r * out_stride + lanes);
  }
}

// x: [rows, depth]; w: [depth, w_stride], of which `columns` are used, a multiple of two vectors.
void accumulate(const float* x, std::size_t rows, const float* w, std::size_t w_stride,
                std::size_t columns, std::size_t depth, float* out, std::size_t out_stride) {
  for (std::size_t c = 0; c < columns; c += 2 * lanes) {
    std::size_t r = 0;
    for (; r + 6 <= rows; r += 6) {
      accumulate_rows<6>(x + r * depth, depth, w + c, w_stride, depth, out + r * out_stride + c,
                         out_stride);
    }
    for (; r < rows; ++r) {
      accumulate_rows<1>(x + r * depth, depth, w + c, w_stride, depth, out + r * out_stride + c,
                         out_stride);
    }
  }
}

}  // namespace waybill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace waybill {
HWY_EXPORT(accumulate);

namespace {

constexpr std::size_t tile_experts = 32;  // a multiple of two vectors on every target
constexpr std::size_t step_depth = 512;   // of d at a time: the packed weights stay in the L2 cache
constexpr std::size_t block_tokens = 24;

// Experts side by side: out[tile][step of d][expert in the tile]. A few steps of all a tile's
// experts at a time, so that the scattered stores stay in the L1 cache.
void pack_weights(const TensorView& weight, std::size_t begin, std::size_t depth, float* out) {
  const auto experts = static_cast<std::size_t>(weight.shape[0]);
  const auto width = static_cast<std::size_t>(weight.shape[1]);
  std::array<float, 128> piece{};
  for (std::size_t tile = 0; tile < experts; tile += tile_experts) {
    for (std::size_t step = 0; step < depth; step += piece.size()) {
      const std::span<float> steps = std::span(piece).first(std::min(piece.size(), depth - step));
      for (std::size_t e = tile; e < std::min(tile + tile_experts, experts); ++e) {
        widen(weight, e * width + begin + step, steps);
        float* column = out + tile * depth + step * tile_experts + (e - tile);
        for (std::size_t i = 0; i < steps.size(); ++i) column[i * tile_experts] = steps[i];
      }
    }
  }
}

void add_bias(const TensorView& bias, Logits& logits) {
  std::vector<float> values(logits.experts);
  widen(bias, 0, values);
  for (std::size_t t = 0; t * logits.stride < logits.values.size(); ++t) {
    std::ranges::transform(logits.row(t), values, logits.row(t).begin(), std::plus<>());
  }
}

}  // namespace

Logits router_logits(const Router& router, const TensorView& hidden) {
  const auto tokens = static_cast<std::size_t>(hidden.shape[0]);
  const auto width = static_cast<std::size_t>(hidden.shape[1]);
  Logits logits;
  logits.experts = static_cast<std::size_t>(router.weight.shape[0]);
  const std::size_t tiles = (logits.experts + tile_experts - 1) / tile_experts;
  logits.stride = tiles * tile_experts;
  logits.values.assign(tokens * logits.stride, 0.0F);

  const auto multiply = HWY_DYNAMIC_DISPATCH(accumulate);
  const auto packed = hwy::AllocateAligned<float>(logits.stride * std::min(step_depth, width));
  std::fill_n(packed.get(), logits.stride * std::min(step_depth, width), 0.0F);
  std::vector<float> x(block_tokens * std::min(step_depth, width));
  for (std::size_t begin = 0; begin < width; begin += step_depth) {
    const std::size_t depth = std::min(step_depth, width - begin);
    pack_weights(router.weight, begin, depth, packed.get());
    for (std::size_t token = 0; token < tokens; token += block_tokens) {
      const std::size_t rows = std::min(block_tokens, tokens - token);
      for (std::size_t r = 0; r < rows; ++r) {
        widen(hidden, (token + r) * width + begin, std::span(x).subspan(r * depth, depth));
      }
      for (std::size_t tile = 0; tile < tiles; ++tile) {
        multiply(x.data(), rows, packed.get() + tile * depth * tile_experts, tile_experts,
                 tile_experts, depth,
                 logits.values.data() + token * logits.stride + tile * tile_experts, logits.stride);
      }
    }
  }
  if (router.bias.data != nullptr) add_bias(router.bias, logits);
  return logits;
}

}  // namespace waybill
#endif
