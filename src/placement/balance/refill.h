// The nearest placement that keeps a problem's rules.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "placement/balance/layer_problem.h"
#include "placement/balance/slots.h"

namespace waybill {

// `lists` of the problem's ranks without second copies on a rank and without what a rank has no
// slot for; then experts that lack a copy (at home, where homes are kept) are seated, taking slots
// from experts with spare copies where none is free, and free slots go to the experts with the
// heaviest copies. Lists that keep the rules come back unchanged. Empty where experts can't be
// seated this way.
std::optional<SlotLists> refill(const LayerProblem& problem, const SlotLists& lists);

}  // namespace waybill
