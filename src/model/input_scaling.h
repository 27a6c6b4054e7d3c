// Families whose gates multiply the experts' input (ModelConfig::scales_input): a scaled row
// belongs to one route, so every route travels as a token of its own, whose gate is 1. Scaling is
// in FP32 at the origin, before a row is rounded to the execution dtype.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "waybill/router.h"
#include "waybill/tensor.h"

namespace waybill {

// Row t * k + j is gates[t, j] * hidden[t]. `hidden`: [T, d] contiguous f32.
std::vector<float> scaled_rows(const TensorView& hidden, const RoutingResult& routing);

// out[t] = the sum of by_route[t * k + j] over j, in route-slot order. `out`: [T, d].
void add_routes(std::span<const float> by_route, std::int32_t topk, std::int64_t hidden,
                std::span<float> out);

}  // namespace waybill
