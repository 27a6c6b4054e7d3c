// Rows between token order and send order on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "waybill/dtype.h"
#include "waybill/plan.h"

namespace waybill {

// send[position(t, j)] = hidden[t] for every accepted route: one read a token, k writes. Rows of
// `row_bytes`, a multiple of 16, without gaps.
struct Permute {
  PlanView plan;
  const void* hidden;  // [T, row_bytes]
  void* send;          // [rows, row_bytes]
  std::int64_t row_bytes;
  bool chained = false;  // base/cuda/chained_kernel.cuh
};
void launch_permute(const Permute& permute, cudaStream_t stream);

// output[t] = Σ_j gates[t, j] * rows[position(t, j)] as one chain of fma in route-slot order in
// FP32, then shared[t], rounded once. A token without accepted routes is 0 (plus shared). A
// non-zero plan status makes every output row 0.
struct Combine {
  PlanView plan;
  const void* rows;  // [rows, hidden], bf16 or f32
  DType row_dtype;
  const float* gates;   // [T, k]
  const float* shared;  // [T, hidden] or null
  void* output;         // [T, hidden], bf16 or f32
  DType output_dtype;
  std::int32_t hidden;     // a multiple of 8
  std::int32_t* bad_gate;  // lowered to the first accepted route whose gate isn't finite
  bool chained = false;    // then only `rows` and `output` may be the stream's previous kernel's
};
void launch_combine(const Combine& combine, cudaStream_t stream);

}  // namespace waybill
