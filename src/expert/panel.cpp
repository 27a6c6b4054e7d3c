#include "expert/panel.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/narrow_float.h"

namespace waybill {
namespace {

// 16 consecutive rows of a weight matrix: one half of a panel.
struct Half {
  const TensorView& matrix;
  std::int64_t row;

  std::int64_t rows() const {
    return std::clamp<std::int64_t>(matrix.shape[0] - row, 0, panel_lanes);
  }
};

struct Halves {
  Half lo, hi;
};

Halves halves(const ExpertWeights& weights, Projection projection, std::int64_t panel) {
  if (projection == Projection::gate_up) {
    return {{weights.gate, panel * panel_lanes}, {weights.up, panel * panel_lanes}};
  }
  return {{weights.down, panel * panel_columns},
          {weights.down, panel * panel_columns + panel_lanes}};
}

// How a stored element becomes the float that the kernels multiply.
struct FromF32 {
  using Stored = float;
  float operator()(Stored value) const { return value; }
};
struct FromBf16 {
  using Stored = std::uint16_t;
  float operator()(Stored value) const { return widen_bf16(value); }
};
struct FromF16 {
  using Stored = std::uint16_t;
  float operator()(Stored value) const { return widen_f16(value); }
};
template <class From>
struct RoundedToBf16 {
  using Stored = typename From::Stored;
  float operator()(Stored value) const { return widen_bf16(round_to_bf16(From()(value))); }
};

template <class Convert>
void read_half(const Half& half, std::int64_t k0, std::int64_t depth, float* out, Convert convert) {
  using Stored = typename Convert::Stored;
  const auto [row_stride, k_stride] = std::pair(half.matrix.strides[0], half.matrix.strides[1]);
  const Stored* first = half.matrix.as<const Stored>() + half.row * row_stride + k0 * k_stride;
  const std::int64_t rows = half.rows();
  if (std::abs(row_stride) < std::abs(k_stride)) {
    for (std::int64_t k = 0; k < depth; ++k) {
      const Stored* from = first + k * k_stride;
      float* to = out + k * panel_columns;
      for (std::int64_t row = 0; row < rows; ++row) to[row] = convert(from[row * row_stride]);
    }
  } else {
    for (std::int64_t row = 0; row < rows; ++row) {
      const Stored* from = first + row * row_stride;
      for (std::int64_t k = 0; k < depth; ++k) {
        out[k * panel_columns + row] = convert(from[k * k_stride]);
      }
    }
  }
  for (std::int64_t k = 0; k < depth && rows < panel_lanes; ++k) {
    std::fill(out + k * panel_columns + rows, out + k * panel_columns + panel_lanes, 0.0F);
  }
}

void read_half(const Half& half, std::int64_t k0, std::int64_t depth, DType dtype, float* out) {
  const auto read = [&](auto convert) { read_half(half, k0, depth, out, convert); };
  const bool round = dtype == DType::bf16;
  switch (half.matrix.dtype) {
    case DType::f32: return round ? read(RoundedToBf16<FromF32>()) : read(FromF32());
    case DType::f16: return round ? read(RoundedToBf16<FromF16>()) : read(FromF16());
    default: return read(FromBf16());
  }
}

}  // namespace

PanelShape panel_shape(std::int64_t hidden, std::int64_t ff, Projection projection) {
  if (projection == Projection::gate_up) {
    return {(ff + panel_lanes - 1) / panel_lanes, hidden, ff, panel_lanes};
  }
  return {(hidden + panel_columns - 1) / panel_columns, ff, hidden, panel_columns};
}

void read_panel(const ExpertWeights& weights, Projection projection, std::int64_t panel,
                std::int64_t k0, std::int64_t depth, DType dtype, float* out) {
  const auto [lo, hi] = halves(weights, projection, panel);
  read_half(lo, k0, depth, dtype, out);
  read_half(hi, k0, depth, dtype, out + panel_lanes);
}

bool read_panel_bias(const ExpertWeights& weights, Projection projection, std::int64_t panel,
                     float* out) {
  const bool gate_up = projection == Projection::gate_up;
  const auto [lo, hi] = halves(weights, projection, panel);
  const TensorView& lo_bias = gate_up ? weights.gate_bias : weights.down_bias;
  const TensorView& hi_bias = gate_up ? weights.up_bias : weights.down_bias;
  if (lo_bias.data == nullptr && hi_bias.data == nullptr) return false;
  std::fill_n(out, panel_columns, 0.0F);
  const auto read = [](const TensorView& bias, const Half& half, float* to) {
    if (bias.data == nullptr) return;
    for (std::int64_t i = 0; i < half.rows(); ++i) {
      to[i] = static_cast<float>(element(bias, half.row + i));
    }
  };
  read(lo_bias, lo, out);
  read(hi_bias, hi, out + panel_lanes);
  return true;
}

}  // namespace waybill
