// The CPU kernels, compiled for several instruction sets and chosen at run time.
//
// Rows are worked on in blocks of at most `block_rows`. A block's activations are a tile
// [k][rows] of floats, so that one step of a GEMM reads one short run of the tile and one step of a
// panel (panel.h). Every lane computes its own output: nothing is summed across lanes, so a row's
// bits depend neither on its place in the block nor on its neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "waybill/expert.h"

namespace waybill {

struct CpuKernels {
  std::string_view target;
  std::int64_t block_rows;

  // acc[rows][32] += x[depth][rows] · w[depth][32]. Each output continues one chain of fused
  // multiply-adds in ascending k. While it runs, the bytes of `ahead` are brought into cache.
  using Multiply = void (*)(const float* x, std::int64_t rows, const std::byte* w,
                            std::int64_t depth, float* acc, std::span<const std::byte> ahead);
  Multiply multiply_f32;
  Multiply multiply_bf16;

  // bf16 steps as f32 steps: out[depth][32].
  void (*widen)(const std::byte* steps, std::int64_t depth, float* out);

  // tile[k][row] = rows[row][k], for k in [0, depth).
  void (*load_tile)(std::span<const std::byte* const> rows, DType dtype, std::int64_t depth,
                    float* tile);

  // tile[c][row] = act(gate, up) for the `columns` outputs c of a gate·up panel, rounded to
  // `dtype`. bias: [32] in panel order, or null.
  void (*activate)(const float* acc, std::int64_t rows, const float* bias, std::int64_t columns,
                   const Activation& activation, DType dtype, float* tile);

  // rows[row][c] = acc[row][c] + bias[c] for the `columns` outputs c of a down panel, rounded to
  // `dtype`.
  void (*store)(const float* acc, const float* bias, std::int64_t columns, DType dtype,
                std::span<std::byte* const> rows);
};

// The best that this machine runs.
const CpuKernels& cpu_kernels();

// Highway's bits of the targets that are compiled in and that this machine runs, best first.
std::vector<std::int64_t> runnable_kernel_targets();

}  // namespace waybill
