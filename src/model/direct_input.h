// What a direct evaluation is given.
#pragma once

#include <cstdint>
#include <span>

#include "exec/row_tensors.h"
#include "waybill/checkpoint.h"
#include "waybill/error.h"

namespace waybill {

// ShapeMismatch for a row that isn't [d].
inline void check_hidden_row(const Checkpoint& checkpoint, std::span<const float> hidden_row) {
  const TensorView row = TensorView::contiguous(hidden_row.data(), DType::f32,
                                                {1, static_cast<std::int64_t>(hidden_row.size())});
  check_rows(row, "hidden_row", 1, checkpoint.config().hidden, {DType::f32});
}

// RouteCountMismatch unless every expert has a gate.
inline void check_gates(std::span<const std::int32_t> topk_experts,
                        std::span<const float> topk_gates) {
  if (topk_gates.size() == topk_experts.size()) return;
  throw Error(Code::RouteCountMismatch)
      .at("field", "topk_gates")
      .expected(topk_experts.size())
      .found(topk_gates.size());
}

}  // namespace waybill
