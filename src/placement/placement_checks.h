// The checks of a slot table, reporting every fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/faults.h"
#include "waybill/placement.h"

namespace waybill {

// False when no table can have these counts; then no other check means anything.
bool check_counts(std::int32_t experts, std::int32_t ranks, std::size_t slots, Faults& faults);

// Everything that the constructor of Placement refuses. Slots are named.
void check_slots(const PlacementVersion& version, std::int32_t experts, std::int32_t ranks,
                 const std::vector<Slot>& slots, const Topology* topology, Faults& faults);

}  // namespace waybill
