#include <cuda_bf16.h>

#include "base/cuda/chained_kernel.cuh"
#include "exec/cuda/row_movement.h"

namespace waybill {
namespace {

constexpr int kThreads = 128;
constexpr int kElements = 8;  // columns of one thread
constexpr int kInFlight = 8;  // rows whose loads are issued before the first is used

// One block a token and kThreads 16-byte pieces of its row.
__global__ void __launch_bounds__(kThreads) permute(const __grid_constant__ Permute p) {
  device::wait_for_earlier_kernels();
  device::let_next_kernel_begin();
  const std::int64_t pieces = p.row_bytes / static_cast<std::int64_t>(sizeof(uint4));
  const std::int64_t piece = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (piece >= pieces) return;
  const std::int64_t token = blockIdx.x;
  const uint4 value = static_cast<const uint4*>(p.hidden)[token * pieces + piece];
  const std::int32_t* position = p.plan.send_position + token * p.plan.topk;
  for (int j = 0; j < p.plan.topk; ++j) {
    const std::int64_t row = position[j];
    if (row >= 0) static_cast<uint4*>(p.send)[row * pieces + piece] = value;
  }
}

// Eight neighbouring values of a row, read once.
struct Bf16Row {
  uint4 bits;
  __device__ void load(const void* rows, std::int64_t at) {
    bits = __ldcs(reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(rows) + at));
  }
  __device__ float operator[](int i) const {
    const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
    const unsigned word = words[i / 2];
    return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000U);
  }
};
struct F32Row {
  float4 low, high;
  __device__ void load(const void* rows, std::int64_t at) {
    const auto* from = reinterpret_cast<const float4*>(static_cast<const float*>(rows) + at);
    low = __ldcs(from);
    high = __ldcs(from + 1);
  }
  __device__ float operator[](int i) const {
    const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    return values[i];
  }
};

__device__ void store(const Combine& p, std::int64_t at, const float (&sum)[kElements]) {
  if (p.output_dtype == DType::f32) {
    auto* to = reinterpret_cast<float4*>(static_cast<float*>(p.output) + at);
    to[0] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    to[1] = make_float4(sum[4], sum[5], sum[6], sum[7]);
    return;
  }
  __nv_bfloat162 pairs[kElements / 2];
#pragma unroll
  for (int i = 0; i < kElements / 2; ++i) {
    pairs[i] = __floats2bfloat162_rn(sum[2 * i], sum[2 * i + 1]);
  }
  *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(p.output) + at) =
      *reinterpret_cast<const uint4*>(pairs);
}

template <class Row>
__global__ void __launch_bounds__(kThreads) combine(const __grid_constant__ Combine p) {
  device::let_next_kernel_begin();
  const int column =
      (static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x)) * kElements;
  if (column >= p.hidden) return device::wait_for_earlier_kernels();
  const std::int64_t token = blockIdx.x;
  float sum[kElements] = {};
  const bool failed = *p.plan.status != 0;
  const std::int32_t* position = p.plan.send_position + token * p.plan.topk;
  const float* gate = p.gates + token * p.plan.topk;
  for (int first = 0; first < p.plan.topk; first += kInFlight) {
    std::int32_t at[kInFlight];
    float weight[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const bool there = first + j < p.plan.topk;
      at[j] = there ? position[first + j] : dropped_route;
      weight[j] = there ? gate[first + j] : 0.0F;
    }
    device::wait_for_earlier_kernels();
    if (failed) return store(p, token * p.hidden + column, sum);
    Row row[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (at[j] >= 0) row[j].load(p.rows, std::int64_t{at[j]} * p.hidden + column);
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (at[j] < 0) continue;
      if (column == 0 && !isfinite(weight[j])) {
        atomicMin(p.bad_gate, static_cast<std::int32_t>(token) * p.plan.topk + first + j);
      }
#pragma unroll
      for (int i = 0; i < kElements; ++i) sum[i] = __fmaf_rn(weight[j], row[j][i], sum[i]);
    }
  }
  if (p.shared != nullptr) {
    F32Row shared;
    shared.load(p.shared, token * p.hidden + column);
#pragma unroll
    for (int i = 0; i < kElements; ++i) sum[i] = __fadd_rn(sum[i], shared[i]);
  }
  store(p, token * p.hidden + column, sum);
}

dim3 token_grid(std::int32_t tokens, std::int64_t pieces) {
  return {static_cast<unsigned>(tokens), static_cast<unsigned>((pieces + kThreads - 1) / kThreads)};
}

}  // namespace

void launch_permute(const Permute& p, cudaStream_t stream) {
  if (p.plan.tokens == 0) return;
  launch_kernel(p.chained, permute, token_grid(p.plan.tokens, p.row_bytes / 16), kThreads, 0,
                stream, p);
}

void launch_combine(const Combine& p, cudaStream_t stream) {
  if (p.plan.tokens == 0) return;
  const auto kernel = p.row_dtype == DType::f32 ? combine<F32Row> : combine<Bf16Row>;
  launch_kernel(p.chained, kernel, token_grid(p.plan.tokens, p.hidden / kElements), kThreads, 0,
                stream, p);
}

}  // namespace waybill
