// The weighted sum of a token's expert rows, in route-slot order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/wire_order.h"
#include "waybill/routes.h"
#include "waybill/tensor.h"

namespace waybill {

// Where a token's sum goes. Data null: none, or not wanted.
struct CombineTarget {
  TensorView output;  // [T, d] in the rows' dtype or f32
  TensorView shared;  // [T, d] f32, added last
  TensorView routed;  // [T, d] f32: the sum before `shared`
};

struct CombineInput {
  RoutesView routes;
  std::span<const std::int32_t> send_position;  // [T*k], -1: dropped
  WireOrder sent;
  const std::byte* returned = nullptr;    // [sent.remote(), d]
  const std::byte* local_rows = nullptr;  // [sent.local(), d]
  DType dtype = DType::f32;               // of the rows: f32 or bf16
  CombineTarget to;
};

// y[t] = Σ_j gate[t, j] * z[t, j] for tokens [first, last): acc = gate * z + acc from +0 in FP32
// over ascending route slots, one fused multiply-add where the instruction set has it and two
// roundings where it hasn't; then + shared, rounded once to the output's dtype.
void combine_tokens(const CombineInput& input, std::int64_t first, std::int64_t last);

}  // namespace waybill
