// The grouped products on Hopper's wgmma instructions, with the same bits as launch_gate_up and
// launch_down. Weights are the rows of each product and expert rows its columns, so that a tile
// computes as many columns as there are rows, in steps of 16. A block is persistent: one warpgroup
// copies, two multiply.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "expert/cuda/grouped_gemm.h"
#include "expert/cuda/tensor_maps.h"

namespace waybill {

// As launch_gate_up and launch_down, where gemm.n is a multiple of 8 and `weights` is the map of
// gemm.weights. `output` is 16-byte aligned, gemm.output_stride a multiple of 8. Tiles have up to
// 64 expert rows, gathered.
void launch_narrow_gate_up(const GroupedGemm& gemm, const CUtensorMap& weights,
                           std::int64_t max_rows, std::int32_t multiprocessors,
                           cudaStream_t stream);
void launch_narrow_down(const GroupedGemm& gemm, const CUtensorMap& weights, std::int64_t max_rows,
                        std::int32_t multiprocessors, cudaStream_t stream);

// Up to 176 expert rows a tile, which the copy engine reads through `rows`, the maps of gemm.input;
// nothing is gathered. Blocks claim their tiles.
void launch_wide_gate_up(const GroupedGemm& gemm, const CUtensorMap& weights, const RowMaps& rows,
                         std::int64_t max_rows, std::int32_t multiprocessors, cudaStream_t stream);
void launch_wide_down(const GroupedGemm& gemm, const CUtensorMap& weights, const RowMaps& rows,
                      std::int64_t max_rows, std::int32_t multiprocessors, cudaStream_t stream);

// False when this program's machine code doesn't run on the current device. Otherwise lets the
// kernels use their shared memory there. Once before the first launch.
bool prepare_hopper_gemm();

}  // namespace waybill
