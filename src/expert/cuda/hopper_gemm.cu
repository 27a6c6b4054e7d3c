#include "expert/cuda/hopper_gemm.h"

#include <algorithm>

#include "base/cuda/chained_kernel.cuh"
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
constexpr int kBlockRows = 64;   // weight rows of one product; under gate_up half are up's
constexpr int kWeightBox = 128;  // weight rows that the copy engine copies at once
constexpr int kUnit = 16;        // expert rows come in
constexpr int kWarpgroup = 128;  // threads
constexpr int kThreads = 3 * kWarpgroup;

// Two warpgroups multiply kBlocks blocks of kBlockRows weight rows each by at most kRows expert
// rows; one more gathers the expert rows, or has the engine copy them. An epilogue transposes
// kStoreBytes of a warpgroup's output at a time.
template <int kBlocks_, int kRows_, int kStages_, bool kGathers_, int kStoreBytes_>
struct Tile {
  static constexpr int kBlocks = kBlocks_, kRows = kRows_, kStages = kStages_;
  static constexpr bool kGathers = kGathers_;
  static constexpr int kCopyRegisters = kGathers ? 72 : 40;
  static constexpr int kMultiplyRegisters = kGathers ? 216 : 232;
  static constexpr int kWeightRows = 2 * kBlocks * kBlockRows;
  static constexpr int kWeightBytes = kWeightRows * kRowBytes;
  static constexpr int kStageBytes = kWeightBytes + kRows * kRowBytes;
  static constexpr int kSums = kRows / 2;  // of a thread and block
  static constexpr int kStoreBytes = kStoreBytes_;
  static constexpr int kAlignment = 1024;  // of stages, which the runtime doesn't promise
  static constexpr int kSharedBytes = kStages * kStageBytes + 2 * kStoreBytes + kAlignment;
};
using Narrow = Tile<1, 64, 8, true, 8192>;
using Wide = Tile<2, 176, 4, false, 4096>;

template <bool kGateUp>
constexpr int kBlockColumns = kGateUp ? kBlockRows / 2 : kBlockRows;  // of the output
template <class T, bool kGateUp>
constexpr int kOutputColumns = 2 * T::kBlocks* kBlockColumns<kGateUp>;  // of a tile
template <class T>
using Sums = float[T::kBlocks][T::kSums];

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The ring of stages between the copying and the multiplying warpgroups. The first stage of a tile
// tells which it is; behind the last tile a stage without one follows.
template <class T>
struct Ring {
  TileAt* tiles;                      // [kStages] shared
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

  __device__ void find(const GroupedGemm& p, const TileAt& tile, int tid) {
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

template <class T, bool kGateUp>
__device__ void copy_weights(std::uint32_t to, const CUtensorMap& map, std::uint32_t barrier,
                             const TileAt& tile, int depth) {
#pragma unroll
  for (int first = 0; first < T::kWeightRows; first += kWeightBox) {
    const int row = tile.column * T::kWeightRows + first;
    if constexpr (kGateUp) {
      device::copy_box_5d(to + first * kRowBytes, map, barrier, depth, 0, 0, row / 16, tile.slot);
    } else {
      device::copy_box_3d(to + first * kRowBytes, map, barrier, depth, row, tile.slot);
    }
  }
}

__device__ int copied_rows(const TileAt& tile) { return (tile.rows + kUnit - 1) / kUnit * kUnit; }

__device__ inline void copy_rows(std::uint32_t to, const RowMaps& maps, std::uint32_t barrier,
                                 const TileAt& tile, int depth) {
  int row = 0;
  for (; row + 64 <= copied_rows(tile); row += 64) {
    device::copy_box_2d(to + row * kRowBytes, maps.by_64, barrier, depth, tile.first_row + row);
  }
  for (; row < copied_rows(tile); row += kUnit) {
    device::copy_box_2d(to + row * kRowBytes, maps.by_16, barrier, depth, tile.first_row + row);
  }
}

// Fills the ring. The weights of the first stages are on their way before earlier kernels have
// ended. `begin` (tile) comes before a tile's stages; `copy_weights` and `copy_rows` (ring, tile,
// step) fill one.
template <class T, class Begin, class CopyWeights, class CopyRows>
__device__ void fill(const GroupedGemm& p, const device::TileSchedule& schedule, Ring<T> ring,
                     const Begin& begin, const CopyWeights& copy_weights,
                     const CopyRows& copy_rows) {
  const int steps = (p.k + kDepth - 1) / kDepth;
  int id = blockIdx.x;
  TileAt tile = schedule.find(id);
  const int ahead = tile.slot < 0 ? 0 : min(steps, T::kStages);
  Ring<T> weights_ahead = ring;
  for (int step = 0; step < ahead; ++step) {
    copy_weights(weights_ahead, tile, step);
    weights_ahead.advance();
  }
  device::wait_for_earlier_kernels();
  device::let_next_kernel_begin();
  if (p.unclaimed != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *p.unclaimed = 0;
  for (int first = ahead; tile.slot >= 0; first = 0) {
    int next = id + static_cast<int>(gridDim.x);
    if constexpr (!T::kGathers) {
      if (threadIdx.x == 0) next = static_cast<int>(gridDim.x + atomicAdd(p.claimed, 1U));
    }
    begin(tile);
    for (int step = 0; step < steps; ++step) {
      if (step >= first) {
        device::wait(ring.empty_barrier(), ring.parity ^ 1);
        copy_weights(ring, tile, step);
      }
      copy_rows(ring, tile, step);
      ring.advance();
    }
    id = T::kGathers ? next : __shfl_sync(0xffffffffU, next, 0);
    tile = schedule.find(id);
  }
  device::wait(ring.empty_barrier(), ring.parity ^ 1);
  if (threadIdx.x == 0) {
    ring.tiles[ring.stage] = tile;
    device::arrive(ring.full_barrier());
  }
  if constexpr (T::kGathers) device::arrive(ring.full_barrier());
}

// Starts copying a stage's weights, and `row_bytes` by the engine are to follow. By one thread.
template <class T, bool kGateUp>
__device__ void begin_stage(const Ring<T>& at, const CUtensorMap& weights, const TileAt& tile,
                            int step, int row_bytes) {
  if (step == 0) at.tiles[at.stage] = tile;
  device::arrive_expecting(at.full_barrier(), T::kWeightBytes + row_bytes);
  copy_weights<T, kGateUp>(at.weights(), weights, at.full_barrier(), tile, step * kDepth);
}

// By one warp.
template <class T, bool kGateUp>
__device__ void copy_tiles(const GroupedGemm& p, const CUtensorMap& weights, const RowMaps& rows,
                           const device::TileSchedule& schedule, const Ring<T>& ring) {
  const bool copies = threadIdx.x == 0;
  fill<T>(
      p, schedule, ring, [](const TileAt&) {},
      [&](const Ring<T>& at, const TileAt& tile, int step) {
        if (!copies) return;
        begin_stage<T, kGateUp>(at, weights, tile, step, copied_rows(tile) * kRowBytes);
      },
      [&](const Ring<T>& at, const TileAt& tile, int step) {
        if (copies) copy_rows(at.rows(), rows, at.full_barrier(), tile, step * kDepth);
      });
}

// By a warpgroup.
template <class T, bool kGateUp>
__device__ void gather_tiles(const GroupedGemm& p, const CUtensorMap& weights,
                             const device::TileSchedule& schedule, const Ring<T>& ring) {
  const int tid = threadIdx.x;
  RowCopier<T> rows;
  fill<T>(
      p, schedule, ring, [&](const TileAt& tile) { rows.find(p, tile, tid); },
      [&](const Ring<T>& at, const TileAt& tile, int step) {
        if (tid == 0) begin_stage<T, kGateUp>(at, weights, tile, step, 0);
      },
      [&](const Ring<T>& at, const TileAt&, int step) {
        rows.stage(p, at.rows(), step * kDepth, tid);
        device::arrive_when_copied(at.full_barrier());
      });
}

// Tells whoever copies to this stage that this warp has read it.
__device__ void release(std::uint32_t empty_barrier) {
  if (threadIdx.x % 32 == 0) device::arrive(empty_barrier);
}

// All of K, kColumns expert rows wide.
template <class T, int kColumns>
__device__ void multiply_tile(Sums<T>& sums, Ring<T>& ring, int steps, int warpgroup) {
  std::uint32_t previous = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    device::wait(ring.full_barrier(), ring.parity);
    if constexpr (T::kGathers) device::publish_to_async_proxy();
    constexpr int block_bytes = kBlockRows * kRowBytes;
    const std::uint64_t weights =
        device::matrix_descriptor(ring.weights() + warpgroup * T::kBlocks * block_bytes);
    const std::uint64_t rows = device::matrix_descriptor(ring.rows());
    device::open_products();
#pragma unroll
    for (int k = 0; k < kDepth / 16; ++k) {
#pragma unroll
      for (int block = 0; block < T::kBlocks; ++block) {
        device::multiply_add_async<kColumns>(
            sums[block], weights + (block * block_bytes / 16 + k * 2), rows + k * 2);
      }
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
__device__ void multiply_rows(Sums<T>& sums, Ring<T>& ring, int rows, int steps, int warpgroup) {
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

// Null: none. Their addresses are read before a tile's products, so that nothing waits for them.
struct Biases {
  const float *first, *second;

  template <bool kGateUp>
  __device__ static Biases of(const SlotWeights& w) {
    return {kGateUp ? w.gate_bias : w.down_bias, kGateUp ? w.up_bias : w.down_bias};
  }
};

// Adds biases and activates. Element e of 8 expert rows' sums stands in weight row lane / 4 + 8 *
// (e / 2) of its warp's 16, expert row 2 * (lane % 4) + e % 2. The output columns of a thread are
// `column` and, in `down`, column + 8.
template <class T, bool kGateUp, bool kClamped>
__device__ void finish_sums(const GroupedGemm& p, const Biases& biases, int column,
                            float (&sums)[T::kSums], int rows) {
  const int second_column = kGateUp ? column : column + 8;
  const bool add_first = biases.first != nullptr && column < p.n;
  const bool add_second = biases.second != nullptr && second_column < p.n;
  const float first_bias = add_first ? biases.first[column] : 0.0F;
  const float second_bias = add_second ? biases.second[second_column] : 0.0F;
#pragma unroll
  for (int i = 0; i < T::kSums; i += 4) {
    if (i * 2 >= rows) break;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float first = sums[i + e], second = sums[i + e + 2];
      if (add_first) first += first_bias;
      if (add_second) second += second_bias;
      if constexpr (kGateUp) first = activation::activate_as<kClamped>(p.activation, first, second);
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
  constexpr int chunks = kBlockColumns<kGateUp> / 8;        // of 16 bytes
  constexpr int together = T::kStoreBytes / (chunks * 16);  // rows
  const int tid = threadIdx.x % kWarpgroup, warp = tid / 32, lane = tid % 32;
  const auto place = [&](int row, int chunk) {
    return shared + (row * chunks + (chunk ^ (row % chunks))) * 16;
  };
  auto* output = static_cast<__nv_bfloat16*>(p.output);
#pragma unroll
  for (int start = 0; start < T::kRows; start += together) {
    if (start >= tile.rows) break;
    device::join_warpgroup(warpgroup);  // the rows before have been read
#pragma unroll
    for (int i = 0; i < together / 8 && start + i * 8 < T::kRows; ++i) {
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
    for (int row = tid / chunks; row < together; row += kWarpgroup / chunks) {
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
__device__ void finish_tile(const GroupedGemm& p, const TileAt& tile, const Biases& biases,
                            Sums<T>& sums, std::uint32_t output, int warpgroup) {
  const int warp = static_cast<int>(threadIdx.x) % kWarpgroup / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int block = 0; block < T::kBlocks; ++block) {
    const int first_column = tile.column * kOutputColumns<T, kGateUp> +
                             (warpgroup * T::kBlocks + block) * kBlockColumns<kGateUp>;
    const int column = first_column + warp * (kGateUp ? 8 : 16) + lane / 4;
    if (kGateUp && p.activation.kind == ActivationKind::swiglu_clamped) {
      finish_sums<T, kGateUp, true>(p, biases, column, sums[block], tile.rows);
    } else {
      finish_sums<T, kGateUp, false>(p, biases, column, sums[block], tile.rows);
    }
    if (p.output_dtype == DType::f32) {
      store_exact<T, kGateUp>(p, tile, sums[block], column);
    } else {
      store_rounded<T, kGateUp>(p, tile, sums[block], output + warpgroup * T::kStoreBytes,
                                warpgroup, first_column);
    }
  }
}

// The tile that begins at the ring's stage, read by the lane that will release the stage. In one
// piece of assembly: as C++ it makes the compiler keep the sums in local memory (0007).
template <class T>
__device__ TileAt tile_at(const Ring<T>& ring) {
  TileAt tile{};
  asm volatile(
      "{\n .reg .pred reads;\n setp.eq.u32 reads, %4, 0;\n"
      "@reads ld.shared.v4.s32 {%0,%1,%2,%3}, [%5];\n"
      "shfl.sync.idx.b32 %0, %0, 0, 31, 0xffffffff;\n"
      "shfl.sync.idx.b32 %1, %1, 0, 31, 0xffffffff;\n"
      "shfl.sync.idx.b32 %2, %2, 0, 31, 0xffffffff;\n"
      "shfl.sync.idx.b32 %3, %3, 0, 31, 0xffffffff;\n}"
      : "+r"(tile.slot), "+r"(tile.first_row), "+r"(tile.rows), "+r"(tile.column)
      : "r"(threadIdx.x % 32), "r"(device::shared_address(ring.tiles + ring.stage))
      : "memory");
  return tile;
}

template <class T, bool kGateUp>
__device__ void multiply_tiles(const GroupedGemm& p, Ring<T> ring, std::uint32_t output,
                               int warpgroup) {
  const int steps = (p.k + kDepth - 1) / kDepth;
  for (;;) {
    device::wait(ring.full_barrier(), ring.parity);
    const TileAt tile = tile_at(ring);
    if (tile.slot < 0) return;
    const Biases biases = Biases::of<kGateUp>(p.weights[tile.slot]);
    Sums<T> sums;
#pragma unroll
    for (int block = 0; block < T::kBlocks; ++block) {
#pragma unroll
      for (float& sum : sums[block]) sum = 0.0F;
    }
    multiply_rows<T>(sums, ring, tile.rows, steps, warpgroup);
    finish_tile<T, kGateUp>(p, tile, biases, sums, output, warpgroup);
  }
}

#endif

template <class T, bool kGateUp>
__global__ void __launch_bounds__(kThreads, 1)
    hopper_gemm(const __grid_constant__ GroupedGemm p, const __grid_constant__ CUtensorMap weights,
                const __grid_constant__ RowMaps rows, int column_tiles) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char shared_memory[];
  __shared__ std::uint64_t barriers[2][T::kStages];
  __shared__ __align__(16) TileAt tiles[T::kStages];
  const std::uint32_t stages =
      (device::shared_address(shared_memory) + T::kAlignment - 1) / T::kAlignment * T::kAlignment;
  const Ring<T> ring{tiles, stages, device::shared_address(barriers[0]),
                     device::shared_address(barriers[1])};
  if (threadIdx.x == 0) {
    device::prefetch_map(weights);
    if constexpr (!T::kGathers) {
      device::prefetch_map(rows.by_64);
      device::prefetch_map(rows.by_16);
    }
    for (int i = 0; i < T::kStages; ++i) {
      device::init_barrier(ring.full + i * 8, T::kGathers ? kWarpgroup + 1 : 1);
      device::init_barrier(ring.empty + i * 8, 2 * kWarpgroup / 32);
    }
    device::publish_barriers();
  }
  if (!p.plan_is_older) device::wait_for_earlier_kernels();
  if (p.status != nullptr && *p.status != 0) return device::wait_for_earlier_kernels();
  __syncthreads();
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup - 1;
  if (warpgroup < 0) {
    device::give_registers<T::kCopyRegisters>();
    if (!T::kGathers && threadIdx.x >= 32) return;
    const device::TileSchedule schedule(p.offsets, p.slots, T::kRows, kUnit, column_tiles);
    if constexpr (T::kGathers) {
      gather_tiles<T, kGateUp>(p, weights, schedule, ring);
    } else {
      copy_tiles<T, kGateUp>(p, weights, rows, schedule, ring);
    }
  } else {
    device::take_registers<T::kMultiplyRegisters>();
    multiply_tiles<T, kGateUp>(p, ring, stages + T::kStages * T::kStageBytes, warpgroup);
  }
#endif
}

template <class T, bool kGateUp>
void launch_tiles(const GroupedGemm& gemm, const CUtensorMap& weights, const RowMaps& rows,
                  std::int64_t max_rows, std::int32_t multiprocessors, cudaStream_t stream) {
  constexpr int columns = kOutputColumns<T, kGateUp>;
  const std::int64_t row_tiles = std::min(max_rows, max_rows / T::kRows + gemm.slots);
  const std::int64_t column_tiles = (gemm.n + columns - 1) / columns;
  const std::int64_t blocks = std::min<std::int64_t>(row_tiles * column_tiles, multiprocessors);
  if (blocks == 0) return;
  launch_kernel(gemm.chained, hopper_gemm<T, kGateUp>, static_cast<unsigned>(blocks), kThreads,
                T::kSharedBytes, stream, gemm, weights, rows, static_cast<int>(column_tiles));
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

void launch_wide_gate_up(const GroupedGemm& gemm, const CUtensorMap& weights, const RowMaps& rows,
                         std::int64_t max_rows, std::int32_t multiprocessors, cudaStream_t stream) {
  launch_tiles<Wide, true>(gemm, weights, rows, max_rows, multiprocessors, stream);
}

void launch_wide_down(const GroupedGemm& gemm, const CUtensorMap& weights, const RowMaps& rows,
                      std::int64_t max_rows, std::int32_t multiprocessors, cudaStream_t stream) {
  launch_tiles<Wide, false>(gemm, weights, rows, max_rows, multiprocessors, stream);
}

bool prepare_hopper_gemm() {
  return prepare_tile<Narrow, true>() && prepare_tile<Narrow, false>() &&
         prepare_tile<Wide, true>() && prepare_tile<Wide, false>();
}

}  // namespace waybill
