#include "expert/panel.h"

#include <algorithm>
#include <cstdlib>

#include "expert/narrow_float.h"

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

float round_to(DType dtype, float value) {
  return dtype == DType::bf16 ? widen_bf16(round_to_bf16(value)) : value;
}

float widen(DType stored, const std::uint16_t* value) {
  return stored == DType::bf16 ? widen_bf16(*value) : widen_f16(*value);
}
float widen(DType /*stored*/, const float* value) { return *value; }

template <class T>
void read_half(const Half& half, std::int64_t k0, std::int64_t depth, DType dtype, float* out) {
  const auto [row_stride, k_stride] = std::pair(half.matrix.strides[0], half.matrix.strides[1]);
  const T* first = half.matrix.as<const T>() + half.row * row_stride + k0 * k_stride;
  const std::int64_t rows = half.rows();
  const auto copy = [&](std::int64_t row, std::int64_t k) {
    out[k * panel_columns + row] =
        round_to(dtype, widen(half.matrix.dtype, first + row * row_stride + k * k_stride));
  };
  if (std::abs(row_stride) < std::abs(k_stride)) {
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t row = 0; row < rows; ++row) copy(row, k);
    }
  } else {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t k = 0; k < depth; ++k) copy(row, k);
    }
  }
  for (std::int64_t k = 0; k < depth && rows < panel_lanes; ++k) {
    std::fill(out + k * panel_columns + rows, out + k * panel_columns + panel_lanes, 0.0F);
  }
}

void read_half(const Half& half, std::int64_t k0, std::int64_t depth, DType dtype, float* out) {
  if (half.matrix.dtype == DType::f32) {
    read_half<float>(half, k0, depth, dtype, out);
  } else {
    read_half<std::uint16_t>(half, k0, depth, dtype, out);
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
