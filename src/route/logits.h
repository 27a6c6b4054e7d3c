// Router logits: hidden rows times the router's weight.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "waybill/router.h"

namespace waybill {

// [T, E] with rows of `stride` floats.
struct Logits {
  std::size_t experts = 0;
  std::size_t stride = 0;
  std::vector<float> values;

  std::span<float> row(std::size_t token) {
    return std::span(values).subspan(token * stride, experts);
  }
};

// Each logit is one chain of fused multiply-adds over d, ascending from 0, then the bias is added;
// so it depends on its own row and expert alone. Shapes and dtypes were checked by the caller.
Logits router_logits(const Router& router, const TensorView& hidden);

}  // namespace waybill
