#include <algorithm>

#include "base/cuda/chained_kernel.cuh"
#include "expert/cuda/activation.h"
#include "expert/cuda/grouped_gemm.h"
#include "expert/cuda/tensor_core_device.cuh"
#include "expert/cuda/tile_schedule_device.cuh"

namespace waybill {
namespace {

using device::TileAt;

// A block computes kRows x kColumns products, kDepth of K at a time, kStages of them in flight; its
// warps form kWarpRows x kWarpColumns. Under gate_up half of the columns are gate's, half up's.
template <int kRows_, int kColumns_, int kDepth_, int kStages_, int kWarpRows_, int kWarpColumns_>
struct Tile {
  static constexpr int kRows = kRows_, kColumns = kColumns_, kDepth = kDepth_, kStages = kStages_;
  static constexpr int kWarpRows = kWarpRows_, kWarpColumns = kWarpColumns_;
  static constexpr int kThreads = 32 * kWarpRows * kWarpColumns;
  static constexpr int kRowsPerWarp = kRows / kWarpRows, kColumnsPerWarp = kColumns / kWarpColumns;
  static constexpr int kRowFragments = kRowsPerWarp / 16;
  static constexpr int kColumnFragments = kColumnsPerWarp / 8;
  static constexpr int kChunks = kDepth / 8;  // 16-byte chunks of a row
  static constexpr int kStageBytes = (kRows + kColumns) * kDepth * 2;
  static constexpr int kSharedBytes = kStages * kStageBytes;
  static constexpr int kRowsPerPass = kThreads / kChunks;  // filled by one copy of each thread
  static_assert(kColumnFragments % 2 == 0 && kChunks % 8 == 0);
  static_assert(kRows % kRowsPerPass == 0 && kColumns % (2 * kRowsPerPass) == 0);
};
using FewRows = Tile<16, 64, 128, 4, 1, 4>;
using SomeRows = Tile<64, 128, 64, 4, 2, 4>;
using ManyRows = Tile<128, 128, 64, 3, 2, 2>;

// Chunks of a row are permuted within groups of 8, so that 8 rows' equal chunks lie in different
// banks.
template <class T>
__device__ int chunk_offset(int row, int chunk) {
  return (row * T::kChunks + (chunk ^ (row % 8))) * 16;
}

// Copies one operand's rows, a stage at a time. Rows past the end and the tail of K become 0.
template <class T, int kOperandRows>
struct Copier {
  static constexpr int kPasses = kOperandRows / T::kRowsPerPass;
  const __nv_bfloat16* row[kPasses];  // null: past the end
  const __nv_bfloat16* readable;      // stands in for such rows' addresses; nothing is read there

  __device__ void stage(std::uint32_t shared, int depth, int k) const {
    const int chunk = threadIdx.x % T::kChunks;
    const int at = depth + chunk * 8;
    const int bytes = min(max(k - at, 0) * 2, 16);
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const int tile_row = threadIdx.x / T::kChunks + i * T::kRowsPerPass;
      const bool real = row[i] != nullptr && bytes > 0;
      const __nv_bfloat16* from = real ? row[i] + at : readable;
      device::copy_16(shared + chunk_offset<T>(tile_row, chunk), from, real ? bytes : 0);
    }
  }
};

// Row of the weight tile at which fragment `fragment` of a warp begins.
template <class T, bool kGateUp>
__device__ int fragment_row(int warp_column, int fragment) {
  if constexpr (!kGateUp) return warp_column * T::kColumnsPerWarp + fragment * 8;
  constexpr int half = T::kColumnFragments / 2;
  const int column = warp_column * (T::kColumnsPerWarp / 2) + fragment % half * 8;
  return fragment < half ? column : T::kColumns / 2 + column;
}

template <class T>
using Sums = float[T::kRowFragments][T::kColumnFragments][4];

// Operands of one step of 16 along K, of one warp.
template <class T, bool kGateUp>
struct Fragments {
  std::uint32_t rows[T::kRowFragments][4];
  std::uint32_t columns[T::kColumnFragments / 2][4];  // of two fragments each

  __device__ void load(std::uint32_t row_tile, std::uint32_t column_tile, int step, int warp_row,
                       int warp_column) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < T::kRowFragments; ++i) {
      const int row = warp_row * T::kRowsPerWarp + i * 16 + lane % 16;
      device::load_matrices(rows[i], row_tile + chunk_offset<T>(row, step * 2 + lane / 16));
    }
#pragma unroll
    for (int j = 0; j < T::kColumnFragments / 2; ++j) {
      const int row = fragment_row<T, kGateUp>(warp_column, j * 2 + lane / 16) + lane % 8;
      device::load_matrices(columns[j],
                            column_tile + chunk_offset<T>(row, step * 2 + lane / 8 % 2));
    }
  }

  __device__ void multiply_into(Sums<T>& sums) const {
#pragma unroll
    for (int j = 0; j < T::kColumnFragments / 2; ++j) {
#pragma unroll
      for (int i = 0; i < T::kRowFragments; ++i) {
        device::multiply_add(sums[i][j * 2], rows[i], columns[j][0], columns[j][1]);
        device::multiply_add(sums[i][j * 2 + 1], rows[i], columns[j][2], columns[j][3]);
      }
    }
  }
};

// The next step's operands load while this step's products run.
template <class T, bool kGateUp>
__device__ void multiply_stage(Sums<T>& sums, std::uint32_t row_tile, std::uint32_t column_tile,
                               int warp_row, int warp_column) {
  constexpr int steps = T::kDepth / 16;
  Fragments<T, kGateUp> fragments[2];
  fragments[0].load(row_tile, column_tile, 0, warp_row, warp_column);
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) {
      fragments[(step + 1) % 2].load(row_tile, column_tile, step + 1, warp_row, warp_column);
    }
    fragments[step % 2].multiply_into(sums);
  }
}

__device__ void store_pair(const GroupedGemm& p, std::int64_t row, int column, int width,
                           float first, float second) {
  const std::int64_t at = row * p.output_stride + column;
  const bool both = column + 1 < width;
  if (p.output_dtype == DType::f32) {
    float* out = static_cast<float*>(p.output) + at;
    out[0] = first;
    if (both) out[1] = second;
  } else {
    __nv_bfloat16* out = static_cast<__nv_bfloat16*>(p.output) + at;
    if (both) {
      *reinterpret_cast<__nv_bfloat162*>(out) = __floats2bfloat162_rn(first, second);
    } else {
      out[0] = __float2bfloat16_rn(first);
    }
  }
}

__device__ float bias_at(const float* bias, int column, int n) {
  return bias != nullptr && column < n ? bias[column] : 0.0F;
}

// A fragment's element e of a lane stands in row lane/4 + 8*(e/2), column 2*(lane%4) + e%2.
template <class T, bool kGateUp, bool kClamped>
__device__ void store_tile(const GroupedGemm& p, const SlotWeights& w, const TileAt& tile,
                           const Sums<T>& sums, int warp_row, int warp_column) {
  constexpr int columns = kGateUp ? T::kColumns / 2 : T::kColumns;
  constexpr int fragments = kGateUp ? T::kColumnFragments / 2 : T::kColumnFragments;
  // The padding of an activated row is written too, as 0: the next product copies whole chunks.
  const int width = kGateUp ? static_cast<int>(p.output_stride) : p.n;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < fragments; ++j) {
    const int column =
        tile.column * columns + fragment_row<T, kGateUp>(warp_column, j) + lane % 4 * 2;
    if (column >= width) continue;
    const float* bias = kGateUp ? w.gate_bias : w.down_bias;
    const float bias0 = bias_at(bias, column, p.n), bias1 = bias_at(bias, column + 1, p.n);
    const float up0 = kGateUp ? bias_at(w.up_bias, column, p.n) : 0.0F;
    const float up1 = kGateUp ? bias_at(w.up_bias, column + 1, p.n) : 0.0F;
#pragma unroll
    for (int i = 0; i < T::kRowFragments; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = warp_row * T::kRowsPerWarp + i * 16 + lane / 4 + half * 8;
        if (row >= tile.rows) continue;
        float first = sums[i][j][half * 2], second = sums[i][j][half * 2 + 1];
        if (bias != nullptr) {
          first += bias0;
          second += bias1;
        }
        if constexpr (kGateUp) {
          const auto& up = sums[i][j + fragments];
          const bool biased = w.up_bias != nullptr;
          first = activation::activate_as<kClamped>(p.activation, first,
                                                    biased ? up[half * 2] + up0 : up[half * 2]);
          second = activation::activate_as<kClamped>(
              p.activation, second, biased ? up[half * 2 + 1] + up1 : up[half * 2 + 1]);
        }
        store_pair(p, static_cast<std::int64_t>(tile.first_row) + row, column, width, first,
                   second);
      }
    }
  }
}

template <class T>
__device__ Copier<T, T::kRows> input_rows(const GroupedGemm& p, const TileAt& tile) {
  Copier<T, T::kRows> copier;
  copier.readable = p.input;
#pragma unroll
  for (int i = 0; i < copier.kPasses; ++i) {
    const int row = threadIdx.x / T::kChunks + i * T::kRowsPerPass;
    std::int64_t at = static_cast<std::int64_t>(tile.first_row) + row;
    const bool real = row < tile.rows;
    if (real && p.gather != nullptr) at = p.gather[at] / p.gather_divisor;
    copier.row[i] = real ? p.input + at * p.input_stride : nullptr;
  }
  return copier;
}

template <class T, bool kGateUp>
__device__ Copier<T, T::kColumns> weight_rows(const GroupedGemm& p, const SlotWeights& w,
                                              const TileAt& tile) {
  constexpr int columns = kGateUp ? T::kColumns / 2 : T::kColumns;
  Copier<T, T::kColumns> copier;
  copier.readable = kGateUp ? w.gate : w.down;
#pragma unroll
  for (int i = 0; i < copier.kPasses; ++i) {
    const int row = threadIdx.x / T::kChunks + i * T::kRowsPerPass;
    const __nv_bfloat16* matrix = !kGateUp ? w.down : (row < columns ? w.gate : w.up);
    const std::int64_t column = static_cast<std::int64_t>(tile.column) * columns + row % columns;
    copier.row[i] = column < p.n ? matrix + column * p.weight_stride : nullptr;
  }
  return copier;
}

template <class T, bool kGateUp>
__global__ void __launch_bounds__(T::kThreads, 2)
    grouped_gemm(const __grid_constant__ GroupedGemm p, int column_tiles) {
  extern __shared__ __align__(128) unsigned char stages[];
  if (!p.plan_is_older) device::wait_for_earlier_kernels();
  const bool failed = p.status != nullptr && *p.status != 0;
  const device::TileSchedule schedule(p.offsets, p.slots, T::kRows, T::kRows, column_tiles);
  const TileAt tile = schedule.find(static_cast<int>(blockIdx.x));
  if (failed || tile.slot < 0) return device::wait_for_earlier_kernels();
  const SlotWeights weights = p.weights[tile.slot];
  const auto input = input_rows<T>(p, tile);
  const auto columns = weight_rows<T, kGateUp>(p, weights, tile);
  const std::uint32_t shared = device::shared_address(stages);
  const int steps = (p.k + T::kDepth - 1) / T::kDepth;
  const auto stage_at = [&](int step) { return shared + step % T::kStages * T::kStageBytes; };
  const auto copy_rows = [&](int step) {
    if (step < steps) input.stage(stage_at(step), step * T::kDepth, p.k);
    device::commit_copies();
  };
  const auto copy_columns = [&](int step) {
    if (step < steps) {
      columns.stage(stage_at(step) + T::kRows * T::kDepth * 2, step * T::kDepth, p.k);
    }
  };

  const int warp = threadIdx.x / 32;
  const int warp_row = warp / T::kWarpColumns, warp_column = warp % T::kWarpColumns;
  Sums<T> sums{};
#pragma unroll
  for (int step = 0; step < T::kStages - 1; ++step) copy_columns(step);
  device::wait_for_earlier_kernels();
  device::let_next_kernel_begin();
#pragma unroll
  for (int step = 0; step < T::kStages - 1; ++step) copy_rows(step);
  for (int step = 0; step < steps; ++step) {
    device::wait_copies<T::kStages - 2>();
    __syncthreads();  // this stage has arrived; the one before has been read by all
    copy_columns(step + T::kStages - 1);
    copy_rows(step + T::kStages - 1);
    const std::uint32_t at = stage_at(step);
    multiply_stage<T, kGateUp>(sums, at, at + T::kRows * T::kDepth * 2, warp_row, warp_column);
  }
  if (kGateUp && p.activation.kind == ActivationKind::swiglu_clamped) {
    store_tile<T, kGateUp, true>(p, weights, tile, sums, warp_row, warp_column);
  } else {
    store_tile<T, kGateUp, false>(p, weights, tile, sums, warp_row, warp_column);
  }
}

template <class T, bool kGateUp>
void launch_tile(const GroupedGemm& gemm, std::int64_t max_rows, cudaStream_t stream) {
  constexpr int columns = kGateUp ? T::kColumns / 2 : T::kColumns;
  // Each slot ends in at most one partial tile, and no tile is empty.
  const std::int64_t row_tiles = std::min(max_rows, max_rows / T::kRows + gemm.slots);
  const std::int64_t column_tiles = (gemm.n + columns - 1) / columns;
  const std::int64_t blocks = row_tiles * column_tiles;
  if (blocks == 0) return;
  launch_kernel(gemm.chained, grouped_gemm<T, kGateUp>, static_cast<unsigned>(blocks), T::kThreads,
                T::kSharedBytes, stream, gemm, static_cast<int>(column_tiles));
}

template <bool kGateUp>
void launch(const GroupedGemm& gemm, TileRows tile, std::int64_t max_rows, cudaStream_t stream) {
  switch (tile) {
    case TileRows::few: return launch_tile<FewRows, kGateUp>(gemm, max_rows, stream);
    case TileRows::some: return launch_tile<SomeRows, kGateUp>(gemm, max_rows, stream);
    case TileRows::many: return launch_tile<ManyRows, kGateUp>(gemm, max_rows, stream);
  }
}

template <class T>
void allow_shared_memory() {
  WAYBILL_CALL(cudaFuncSetAttribute(grouped_gemm<T, true>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, T::kSharedBytes));
  WAYBILL_CALL(cudaFuncSetAttribute(grouped_gemm<T, false>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, T::kSharedBytes));
}

}  // namespace

TileRows choose_tile_rows(std::int64_t rows, std::int32_t slots) {
  const std::int64_t per_slot = rows / std::max<std::int64_t>(slots, 1);
  if (per_slot <= 8) return TileRows::few;
  return per_slot <= 48 ? TileRows::some : TileRows::many;
}

void launch_gate_up(const GroupedGemm& gemm, TileRows tile, std::int64_t max_rows,
                    cudaStream_t stream) {
  launch<true>(gemm, tile, max_rows, stream);
}

void launch_down(const GroupedGemm& gemm, TileRows tile, std::int64_t max_rows,
                 cudaStream_t stream) {
  launch<false>(gemm, tile, max_rows, stream);
}

void prepare_grouped_gemm() {
  allow_shared_memory<FewRows>();
  allow_shared_memory<SomeRows>();
  allow_shared_memory<ManyRows>();
}

std::int32_t grouped_gemm_ptx_version() {
  cudaFuncAttributes attributes{};
  WAYBILL_CALL(cudaFuncGetAttributes(&attributes, grouped_gemm<FewRows, false>));
  return attributes.ptxVersion;
}

}  // namespace waybill
