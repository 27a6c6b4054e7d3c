// The order in which the CPU kernels read weights. The output columns of a GEMM are cut into
// panels; a panel is [k][lo, hi]: for every k, two runs of 16 columns that one kernel step
// multiplies together. A gate·up panel holds 16 gate columns (lo) and the same 16 up columns (hi),
// so that the activation is fused; a down panel holds 32 consecutive columns.
//
// In f32 a step is 32 floats. In bf16 it is 16 words of 32 bits, lo in the lower half, so that one
// load gives both runs, each widened by one operation. Columns past the end are zero.
#pragma once

#include <cstdint>

#include "waybill/expert.h"

namespace waybill {

inline constexpr std::int64_t panel_lanes = 16;
inline constexpr std::int64_t panel_columns = 2 * panel_lanes;

enum class Projection : std::uint8_t { gate_up, down };

struct PanelShape {
  std::int64_t count;    // panels
  std::int64_t depth;    // K
  std::int64_t columns;  // outputs after the activation, over all panels
  std::int64_t width;    // outputs of a full panel

  // Outputs of one panel; fewer in the last.
  std::int64_t columns_of(std::int64_t panel) const {
    const std::int64_t left = columns - panel * width;
    return left < width ? left : width;
  }
};

PanelShape panel_shape(std::int64_t hidden, std::int64_t ff, Projection projection);

// Reads rows [k0, k0 + depth) of a panel from the owner's layout into out[depth][32], each value
// rounded to `dtype`.
void read_panel(const ExpertWeights& weights, Projection projection, std::int64_t panel,
                std::int64_t k0, std::int64_t depth, DType dtype, float* out);

// Reads a panel's biases into out[32] in panel order; false when the projection has none.
bool read_panel_bias(const ExpertWeights& weights, Projection projection, std::int64_t panel,
                     float* out);

}  // namespace waybill
