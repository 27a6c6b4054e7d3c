// The default solver for one layer.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/balance/layer_problem.h"

namespace waybill {

// Experts by slot [slots] with a small largest rank time: apportions copies in several ways, packs
// each, and searches on from the packings in order of promise. Deterministic.
std::vector<std::int32_t> solve_layer(const LayerProblem& problem);

}  // namespace waybill
