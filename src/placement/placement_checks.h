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

// False when an expert or a rank is out of range.
bool check_slot_ids(const std::vector<Slot>& slots, std::int32_t experts, std::int32_t ranks,
                    Faults& faults);

// The rest of what the constructor of Placement refuses. Slots are named. Where some ids are out of
// range, no expert or rank is said to lack a slot: the slot may be there under a wrong id.
void check_slots(const PlacementVersion& version, std::int32_t experts, std::int32_t ranks,
                 const std::vector<Slot>& slots, bool ids_in_range, const Topology* topology,
                 Faults& faults);

}  // namespace waybill
