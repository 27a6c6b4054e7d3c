#include "expert/cuda/hopper_gemm.h"

#include <algorithm>

#include "base/cuda/call.h"
#include "expert/cuda/activation.h"
#include "expert/cuda/tensor_core_device.cuh"
#include "expert/cuda/tile_schedule_device.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "expert/cuda/hopper_device.cuh"
#endif

// For PTX the kernels are empty, which leaves constants unused.
#pragma nv_diag_suppress 177

namespace waybill {
namespace {

using device::TileAt;

constexpr int kDepth = 64;  // of K in a stage: one swizzled row of 128 bytes
constexpr int kRowBytes = kDepth * 2;
constexpr int kWeightRows = 128;  // of a tile, 64 a warpgroup; under gate_up half are up's
constexpr int kRowBox = 32;       // expert rows that the copy engine copies at once
constexpr int kUnit = 16;         // expert rows come in
constexpr int kWarpgroup = 128;   // threads
constexpr int kThreads = 3 * kWarpgroup;
constexpr int kStoredTogether = 64;  // expert rows that an epilogue transposes at a time

// kRows expert rows at most, kStages copies in flight; a warpgroup gathers the rows or the engine
// copies them.
template <int kRows_, int kStages_, bool kGathers_>
struct Tile {
  static constexpr int kRows = kRows_, kStages = kStages_;
  static constexpr bool kGathers = kGathers_;
  static constexpr int kCopyRegisters = kGathers ? 72 : 40;
  static constexpr int kMultiplyRegisters = kGathers ? 216 : 232;
  static constexpr int kWeightBytes = kWeightRows * kRowBytes;
  static constexpr int kStageBytes = kWeightBytes + kRows * kRowBytes;
  static constexpr int kSums = kRows / 2;  // of a thread
  static constexpr int kOutputBytes = 2 * kStoredTogether * 64 * 2;
  static constexpr int kAlignment = 1024;  // of stages, which the runtime doesn't promise
  static constexpr int kSharedBytes = kStages * kStageBytes + kOutputBytes + kAlignment;
};
using Narrow = Tile<64, 8, true>;
using Wide = Tile<256, 4, false>;

template <bool kGateUp>
constexpr int kOutputColumns = kGateUp ? kWeightRows / 2 : kWeightRows;  // of a tile

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The ring of stages between the copying and the multiplying warpgroups.
template <class T>
struct Ring {
  std::uint32_t stages, full, empty;  // shared addresses
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ std::uint32_t weights() const { return stages + stage * T::kStageBytes; }
  __device__ std::uint32_t rows() const { return weights() + T::kWeightBytes; }
  __device__ std::uint32_t full_barrier() const { return full + stage * 8; }
  __device__ std::uint32_t empty_barrier() const { return empty + stage * 8; }
  __device__ void advance() {
    if (++stage == T::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// The expert rows that one thread of the copying warpgroup copies: 16-byte chunk `chunk` of rows
// tid / 8 + 16 i.
template <class T>
struct RowCopier {
  static constexpr int kCopies = T::kRows / 16;
  int source[kCopies];  // input row, -1: past the end
  int passes;

  __device__ RowCopier(const GroupedGemm& p, const TileAt& tile, int tid) {
    passes = (tile.rows + 15) / 16;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int row = tid / 8 + i * 16;
      source[i] = -1;
      if (row < tile.rows) {
        source[i] = tile.first_row + row;
        if (p.gather != nullptr) source[i] = p.gather[source[i]] / p.gather_divisor;
      }
    }
  }
  __device__ void stage(const GroupedGemm& p, std::uint32_t to, int depth, int tid) const {
    const int row = tid / 8, chunk = tid % 8;
    const int at = depth + chunk * 8;
    const int bytes = min(max(p.k - at, 0) * 2, 16);
    to += row * kRowBytes + (chunk ^ (row % 8)) * 16;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      if (i >= passes) break;
      const bool real = source[i] >= 0 && bytes > 0;
      const __nv_bfloat16* from = p.input + (real ? source[i] * p.input_stride + at : 0);
      device::copy_16(to + i * 16 * kRowBytes, from, real ? bytes : 0);
    }
  }
};

template <bool kGateUp>
__device__ void copy_weights(std::uint32_t to, const CUtensorMap& map, std::uint32_t barrier,
                             const TileAt& tile, int depth) {
  if constexpr (kGateUp) {
    device::copy_box_5d(to, map, barrier, depth, 0, 0, tile.column * kWeightRows / 16, tile.slot);
  } else {
    device::copy_box_3d(to, map, barrier, depth, tile.column * kWeightRows, tile.slot);
  }
}

// By one thread.
template <class T, bool kGateUp>
__device__ void copy_tiles(const GroupedGemm& p, const CUtensorMap& weights,
                           const CUtensorMap& rows, const device::TileSchedule& schedule,
                           Ring<T> ring) {
  const int steps = (p.k + kDepth - 1) / kDepth;
  for (int id = blockIdx.x;; id += gridDim.x) {
    const TileAt tile = schedule.find(id);
    if (tile.slot < 0) return;
    const int boxes = (tile.rows + kRowBox - 1) / kRowBox;
    if (threadIdx.x != 0) continue;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      const std::uint32_t full = ring.full_barrier();
      device::wait(ring.empty_barrier(), ring.parity ^ 1);
      device::arrive_expecting(full, T::kWeightBytes + boxes * kRowBox * kRowBytes);
      copy_weights<kGateUp>(ring.weights(), weights, full, tile, step * kDepth);
      for (int box = 0; box < boxes; ++box) {
        device::copy_box_2d(ring.rows() + box * kRowBox * kRowBytes, rows, full, step * kDepth,
                            tile.first_row + box * kRowBox);
      }
      ring.advance();
    }
  }
}

template <class T, bool kGateUp>
__device__ void gather_tiles(const GroupedGemm& p, const CUtensorMap& weights,
                             const device::TileSchedule& schedule, Ring<T> ring) {
  const int tid = threadIdx.x;
  const int steps = (p.k + kDepth - 1) / kDepth;
  for (int id = blockIdx.x;; id += gridDim.x) {
    const TileAt tile = schedule.find(id);
    if (tile.slot < 0) return;
    const RowCopier<T> rows(p, tile, tid);
    for (int step = 0; step < steps; ++step) {
      device::wait(ring.empty_barrier(), ring.parity ^ 1);
      if (tid == 0) {
        device::arrive_expecting(ring.full_barrier(), T::kWeightBytes);
        copy_weights<kGateUp>(ring.weights(), weights, ring.full_barrier(), tile, step * kDepth);
      }
      rows.stage(p, ring.rows(), step * kDepth, tid);
      device::arrive_when_copied(ring.full_barrier());
      ring.advance();
    }
  }
}

// Tells whoever copies to this stage that this warp has read it.
__device__ void release(std::uint32_t empty_barrier) {
  if (threadIdx.x % 32 == 0) device::arrive(empty_barrier);
}

// All of K, kColumns expert rows wide.
template <class T, int kColumns>
__device__ void multiply_tile(float (&sums)[T::kSums], Ring<T>& ring, int steps, int warpgroup) {
  std::uint32_t previous = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    device::wait(ring.full_barrier(), ring.parity);
    if constexpr (T::kGathers) device::publish_to_async_proxy();
    const std::uint64_t weights =
        device::matrix_descriptor(ring.weights() + warpgroup * 64 * kRowBytes);
    const std::uint64_t rows = device::matrix_descriptor(ring.rows());
    device::open_products();
#pragma unroll
    for (int k = 0; k < kDepth / 16; ++k) {
      device::multiply_add_async<kColumns>(sums, weights + k * 2, rows + k * 2);
    }
    device::commit_products();
    device::wait_products<1>();
    if (step > 0) release(previous);
    previous = ring.empty_barrier();
    ring.advance();
  }
  device::wait_products<0>();
  release(previous);
}

// The narrowest product of at least `rows` columns.
template <class T, int kColumns = kUnit>
__device__ void multiply_rows(float (&sums)[T::kSums], Ring<T>& ring, int rows, int steps,
                              int warpgroup) {
  if constexpr (kColumns < T::kRows) {
    if (rows > kColumns) {
      multiply_rows<T, kColumns + kUnit>(sums, ring, rows, steps, warpgroup);
      return;
    }
  }
  multiply_tile<T, kColumns>(sums, ring, steps, warpgroup);
}

__device__ std::uint32_t pair(float first, float second) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
  std::uint32_t bits;
  memcpy(&bits, &both, sizeof bits);
  return bits;
}

// What a thread adds to its sums. Its output columns are `column` and, in `down`, column + 8.
struct Biases {
  bool first = false, second = false;
  float first_value = 0, second_value = 0;
};

template <bool kGateUp>
__device__ Biases biases(const GroupedGemm& p, const SlotWeights& w, int column) {
  Biases b;
  const float* first = kGateUp ? w.gate_bias : w.down_bias;
  const float* second = kGateUp ? w.up_bias : w.down_bias;
  const int second_column = kGateUp ? column : column + 8;
  b.first = first != nullptr && column < p.n;
  b.second = second != nullptr && second_column < p.n;
  if (b.first) b.first_value = first[column];
  if (b.second) b.second_value = second[second_column];
  return b;
}

// Element e of 8 expert rows' sums stands in weight row lane / 4 + 8 * (e / 2) of its warp's 16,
// expert row 2 * (lane % 4) + e % 2.
template <class T, bool kGateUp>
__device__ void finish_sums(const GroupedGemm& p, const Biases& b, float (&sums)[T::kSums], int n) {
#pragma unroll
  for (int i = 0; i < T::kSums; i += 4) {
    if (i * 2 >= n) break;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float first = sums[i + e], second = sums[i + e + 2];
      if (b.first) first += b.first_value;
      if (b.second) second += b.second_value;
      if constexpr (kGateUp) first = activation::activate(p.activation, first, second);
      sums[i + e] = first;
      sums[i + e + 2] = second;
    }
  }
}

// bf16 rows through shared memory, so that a row's columns leave together.
template <class T, bool kGateUp>
__device__ void store_rounded(const GroupedGemm& p, const TileAt& tile,
                              const float (&sums)[T::kSums], std::uint32_t shared, int warpgroup,
                              int first_column) {
  constexpr int columns = kOutputColumns<kGateUp> / 2;  // of the warpgroup
  constexpr int chunks = columns / 8;                   // of 16 bytes
  const int tid = threadIdx.x % kWarpgroup, warp = tid / 32, lane = tid % 32;
  const auto place = [&](int row, int chunk) {
    return shared + (row * chunks + (chunk ^ (row % chunks))) * 16;
  };
  auto* output = static_cast<__nv_bfloat16*>(p.output);
#pragma unroll
  for (int start = 0; start < T::kRows; start += kStoredTogether) {
    if (start >= tile.rows) break;
    device::join_warpgroup(warpgroup);  // the rows before have been read
#pragma unroll
    for (int i = 0; i < kStoredTogether / 8; ++i) {
      const float* s = sums + (start + i * 8) / 2;
      const int row = i * 8 + lane % 8;
      if constexpr (kGateUp) {
        device::store_matrix_transposed(place(row, warp), pair(s[0], s[1]));
      } else {
        device::store_matrix_transposed(place(row, warp * 2), pair(s[0], s[1]));
        device::store_matrix_transposed(place(row, warp * 2 + 1), pair(s[2], s[3]));
      }
    }
    device::join_warpgroup(warpgroup);
    const int chunk = tid % chunks, column = first_column + chunk * 8;
#pragma unroll
    for (int row = tid / chunks; row < kStoredTogether; row += kWarpgroup / chunks) {
      if (start + row >= tile.rows || column >= p.n) break;
      uint4 values;
      asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(values.x), "=r"(values.y), "=r"(values.z), "=r"(values.w)
                   : "r"(place(row, chunk))
                   : "memory");
      *reinterpret_cast<uint4*>(
          output + (std::int64_t{tile.first_row} + start + row) * p.output_stride + column) =
          values;
    }
  }
}

// FP32 rows: the eight columns of a warp's sector leave together as they are.
template <class T, bool kGateUp>
__device__ void store_exact(const GroupedGemm& p, const TileAt& tile, const float (&sums)[T::kSums],
                            int column) {
  const int lane = threadIdx.x % 32;
  auto* output = static_cast<float*>(p.output);
#pragma unroll
  for (int i = 0; i < T::kSums; ++i) {
    const int row = i / 4 * 8 + lane % 4 * 2 + i % 2;
    const int at = column + i / 2 % 2 * 8;
    if (row >= tile.rows || at >= p.n || (kGateUp && i / 2 % 2 == 1)) continue;
    output[(std::int64_t{tile.first_row} + row) * p.output_stride + at] = sums[i];
  }
}

template <class T, bool kGateUp>
__device__ void multiply_tiles(const GroupedGemm& p, const device::TileSchedule& schedule,
                               Ring<T> ring, std::uint32_t output, int warpgroup) {
  const int tid = threadIdx.x % kWarpgroup, warp = tid / 32, lane = tid % 32;
  const int steps = (p.k + kDepth - 1) / kDepth;
  constexpr int columns = kOutputColumns<kGateUp>;
  for (int id = blockIdx.x;; id += gridDim.x) {
    const TileAt tile = schedule.find(id);
    if (tile.slot < 0) return;
    const int first_column = tile.column * columns + warpgroup * columns / 2;
    const int column = first_column + warp * (kGateUp ? 8 : 16) + lane / 4;
    const Biases bias = biases<kGateUp>(p, p.weights[tile.slot], column);
    float sums[T::kSums];
#pragma unroll
    for (float& sum : sums) sum = 0.0F;
    multiply_rows<T>(sums, ring, tile.rows, steps, warpgroup);
    finish_sums<T, kGateUp>(p, bias, sums, tile.rows);
    if (p.output_dtype == DType::f32) {
      store_exact<T, kGateUp>(p, tile, sums, column);
    } else {
      store_rounded<T, kGateUp>(p, tile, sums, output + warpgroup * kStoredTogether * 64 * 2,
                                warpgroup, first_column);
    }
  }
}

#endif

template <class T, bool kGateUp>
__global__ void __launch_bounds__(kThreads, 1)
    hopper_gemm(const __grid_constant__ GroupedGemm p, const __grid_constant__ CUtensorMap weights,
                const __grid_constant__ CUtensorMap rows, int column_tiles) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char shared_memory[];
  __shared__ std::uint64_t barriers[2][T::kStages];
  if (p.status != nullptr && *p.status != 0) return;
  const std::uint32_t stages =
      (device::shared_address(shared_memory) + T::kAlignment - 1) / T::kAlignment * T::kAlignment;
  const Ring<T> ring{stages, device::shared_address(barriers[0]),
                     device::shared_address(barriers[1])};
  if (threadIdx.x == 0) {
    device::prefetch_map(weights);
    if constexpr (!T::kGathers) device::prefetch_map(rows);
    for (int i = 0; i < T::kStages; ++i) {
      device::init_barrier(ring.full + i * 8, T::kGathers ? kWarpgroup + 1 : 1);
      device::init_barrier(ring.empty + i * 8, 2 * kWarpgroup / 32);
    }
    device::publish_barriers();
  }
  const device::TileSchedule schedule(p.offsets, p.slots, T::kRows, kUnit, column_tiles);
  __syncthreads();
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup - 1;
  if (warpgroup < 0) {
    device::give_registers<T::kCopyRegisters>();
    if constexpr (T::kGathers) {
      gather_tiles<T, kGateUp>(p, weights, schedule, ring);
    } else {
      copy_tiles<T, kGateUp>(p, weights, rows, schedule, ring);
    }
  } else {
    device::take_registers<T::kMultiplyRegisters>();
    multiply_tiles<T, kGateUp>(p, schedule, ring, stages + T::kStages * T::kStageBytes, warpgroup);
  }
#endif
}

template <class T, bool kGateUp>
void launch_tiles(const GroupedGemm& gemm, const CUtensorMap& weights, const CUtensorMap& rows,
                  std::int64_t max_rows, std::int32_t multiprocessors, cudaStream_t stream) {
  constexpr int columns = kOutputColumns<kGateUp>;
  const std::int64_t row_tiles = std::min(max_rows, max_rows / T::kRows + gemm.slots);
  const std::int64_t column_tiles = (gemm.n + columns - 1) / columns;
  const std::int64_t blocks = std::min<std::int64_t>(row_tiles * column_tiles, multiprocessors);
  if (blocks == 0) return;
  hopper_gemm<T, kGateUp><<<static_cast<unsigned>(blocks), kThreads, T::kSharedBytes, stream>>>(
      gemm, weights, rows, static_cast<int>(column_tiles));
  WAYBILL_CALL(cudaGetLastError());
}

template <class T, bool kGateUp>
bool prepare_tile() {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, hopper_gemm<T, kGateUp>) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  if (attributes.binaryVersion != 90 || attributes.ptxVersion < 90) return false;  // made from PTX
  WAYBILL_CALL(cudaFuncSetAttribute(hopper_gemm<T, kGateUp>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, T::kSharedBytes));
  return true;
}

}  // namespace

void launch_narrow_gate_up(const GroupedGemm& gemm, const CUtensorMap& weights,
                           std::int64_t max_rows, std::int32_t multiprocessors,
                           cudaStream_t stream) {
  launch_tiles<Narrow, true>(gemm, weights, {}, max_rows, multiprocessors, stream);
}

void launch_narrow_down(const GroupedGemm& gemm, const CUtensorMap& weights, std::int64_t max_rows,
                        std::int32_t multiprocessors, cudaStream_t stream) {
  launch_tiles<Narrow, false>(gemm, weights, {}, max_rows, multiprocessors, stream);
}

void launch_wide_gate_up(const GroupedGemm& gemm, const CUtensorMap& weights,
                         const CUtensorMap& rows, std::int64_t max_rows,
                         std::int32_t multiprocessors, cudaStream_t stream) {
  launch_tiles<Wide, true>(gemm, weights, rows, max_rows, multiprocessors, stream);
}

void launch_wide_down(const GroupedGemm& gemm, const CUtensorMap& weights, const CUtensorMap& rows,
                      std::int64_t max_rows, std::int32_t multiprocessors, cudaStream_t stream) {
  launch_tiles<Wide, false>(gemm, weights, rows, max_rows, multiprocessors, stream);
}

bool prepare_hopper_gemm() {
  return prepare_tile<Narrow, true>() && prepare_tile<Narrow, false>() &&
         prepare_tile<Wide, true>() && prepare_tile<Wide, false>();
}

}  // namespace waybill
