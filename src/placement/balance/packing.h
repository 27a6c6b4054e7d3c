// A first placement: copies into slots, heaviest first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "placement/balance/layer_problem.h"

namespace waybill {

// Experts by slot [slots], for `copies` [E] as apportion_copies() gives them. Nodes first: where
// homes are kept, one copy of each expert goes to its home node and the others to the node with the
// least load; then, inside nodes, each copy to the rank with the least time that has room and no
// copy of that expert. Empty where these copies and homes have no such placement.
std::optional<std::vector<std::int32_t>> pack_copies(const LayerProblem& problem,
                                                     std::span<const std::int32_t> copies);

}  // namespace waybill
