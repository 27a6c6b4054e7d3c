// From a declared layout to the shape that a file must have and to views of one expert in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/family.h"
#include "waybill/expert.h"
#include "waybill/tensor.h"

namespace waybill {

struct ExpertExtents {
  std::int64_t experts = 0;  // E
  std::int64_t hidden = 0;   // d
  std::int64_t ff = 0;
};

std::vector<std::int64_t> stored_shape(std::span<const Axis> axes, const ExpertExtents& extents);

// Points the views of `weights` that the tensor holds into `data`, row-major of stored_shape().
// `expert` matters only for tensors that hold all experts.
void set_views(const ExpertTensor& declared, const ExpertExtents& extents, const void* data,
               DType dtype, ExpertId expert, ExpertWeights& weights);

}  // namespace waybill
