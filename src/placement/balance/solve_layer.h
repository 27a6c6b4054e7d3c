// The default solver for one layer.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/balance/layer_problem.h"

namespace waybill {

// A balance ratio this near to 1 is as good as even: demand moves more between two steps.
inline constexpr double kEvenEnough = 1 + 1e-4;
// Candidate moves that one layer's search may look at.
inline constexpr std::int64_t kSearchCandidates = 25'000;

// Experts by slot [slots] with a small largest rank time: apportions copies in several ways, packs
// each, searches on from the packings in order of promise, then from random changes of the best
// while work is left. Deterministic. InvalidValue when no packing keeps the homes.
std::vector<std::int32_t> solve_layer(const LayerProblem& problem);

}  // namespace waybill
