// Groups of experts to nodes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "placement/balance/layer_problem.h"
#include "placement/balance/slots.h"

namespace waybill {

// Home node of each expert [E]: whole groups of E / `groups` contiguous experts, equally many a
// node, with even node loads. Where `in_force` (lists of the problem's ranks, may be empty) already
// keeps a copy of every expert of every group in a node that fits, its nodes stay.
std::vector<std::int32_t> assign_homes(const LayerProblem& problem, std::int32_t groups,
                                       const SlotLists& in_force);

}  // namespace waybill
