// Grouped products of expert rows with their experts' weights on m16n8k16 tensor core instructions:
// bf16 operands, FP32 sums. Each output is one ascending chain over K in steps of 16, so a row's
// bits depend on that row and its expert alone, never on its tile or its neighbours.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "waybill/dtype.h"
#include "waybill/expert.h"

namespace waybill {

// bf16 values in the 16 bytes that a kernel's copy moves: rows begin at multiples of it.
inline constexpr std::int64_t kElementsPerCopy = 8;
constexpr std::int64_t padded_width(std::int64_t width) {
  return (width + kElementsPerCopy - 1) / kElementsPerCopy * kElementsPerCopy;
}

// One slot's weights in device memory. Rows are contiguous along K.
struct SlotWeights {
  const __nv_bfloat16 *gate, *up;                // [ff, d]
  const __nv_bfloat16* down;                     // [d, ff]
  const float *gate_bias, *up_bias, *down_bias;  // null: none
};

struct GroupedGemm {
  const __nv_bfloat16* input;  // [rows, k], row stride a multiple of 8
  std::int64_t input_stride;
  const std::int32_t* gather;  // input row of expert row i is gather[i] / gather_divisor; null: i
  std::int32_t gather_divisor;
  const std::int32_t* offsets;  // [slots+1] first expert row of each slot
  std::int32_t slots;
  const SlotWeights* weights;  // [slots]
  std::int64_t weight_stride;  // of a weight row, a multiple of 8
  std::int32_t k, n;           // inner extent; columns of the output
  void* output;                // [rows, n]
  std::int64_t output_stride;
  DType output_dtype;           // bf16 or f32
  Activation activation;        // gate_up only
  const std::uint32_t* status;  // a non-zero word: nothing is written; null: none
  bool chained;  // launched while the stream's previous kernel runs (base/cuda/chained_kernel.cuh)
  bool plan_is_older;  // than that kernel: offsets, gather and status can be read meanwhile
  // Wide tiles only: how many of them blocks have claimed, 0 when the kernel begins, and the next
  // product's such count, which the kernel makes 0 (null: there is none).
  std::uint32_t *claimed, *unclaimed;
};

// Rows of a tile. Smaller tiles waste less when experts have few rows.
enum class TileRows : std::uint8_t { few, some, many };  // 16, 64, 128
TileRows choose_tile_rows(std::int64_t rows, std::int32_t slots);

// output = act(input · gateᵀ + gate_bias, input · upᵀ + up_bias), n = ff, for at most `max_rows`
// rows in all.
void launch_gate_up(const GroupedGemm& gemm, TileRows tile, std::int64_t max_rows,
                    cudaStream_t stream);
// output = input · downᵀ + down_bias, n = d.
void launch_down(const GroupedGemm& gemm, TileRows tile, std::int64_t max_rows,
                 cudaStream_t stream);

// Lets the kernels use their shared memory on the current device. Once before the first launch.
void prepare_grouped_gemm();
// The virtual architecture that the loaded kernels were compiled for: 90 is the machine code of
// sm_90a, 80 what the driver made from PTX.
std::int32_t grouped_gemm_ptx_version();

}  // namespace waybill
