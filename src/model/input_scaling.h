// Families whose gates multiply the experts' input (ModelConfig::scales_input): a scaled row
// belongs to one route, so every route travels as a token of its own, whose gate is 1. Scaling is
// in FP32 at the origin, before a row is rounded to the execution dtype.
#pragma once

#include <span>
#include <vector>

#include "exec/combine_rows.h"
#include "waybill/routes.h"
#include "waybill/tensor.h"

namespace waybill {

// Row t * k + j is gates[t, j] * hidden[t]. `hidden`: [T, d] f32.
std::vector<float> scaled_rows(const TensorView& hidden, const RoutesView& routes);

// Sums rows of routes over their tokens as a step does: row t * k + j of `by_route` is that of
// route slot j of token t, with its gate in `routes`.
void add_routes(std::span<const float> by_route, const RoutesView& routes, const CombineTarget& to);

}  // namespace waybill
