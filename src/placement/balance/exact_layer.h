// The smallest largest rank time that a layer can have, found and proven by branch and cut.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "placement/balance/layer_problem.h"
#include "waybill/balance.h"

namespace waybill {

struct ExactLayer {
  std::vector<std::int32_t> experts;  // by slot
  Proof proof;
};

// Starts from `start` (experts by slot, the problem's rules kept) and never ends with worse. Stops
// after `seconds` with the best bound that it has. Throws InvalidValue for a problem that is too
// large to be worth a try, OptionNotBuilt in a build without CBC.
ExactLayer solve_exactly(const LayerProblem& problem, std::span<const std::int32_t> start,
                         double seconds);

}  // namespace waybill
