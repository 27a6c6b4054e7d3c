// Placements as lists of experts by rank: what callers hand in and get back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "placement/balance/layer_problem.h"
#include "waybill/balance.h"

namespace waybill {

// Load of each rank [P], every copy of an expert carrying an equal share.
std::vector<double> rank_loads(std::span<const double> load, const SlotLists& lists);

// Slots whose expert their rank did not hold before: what has to be moved in.
std::int32_t changed_slots(const SlotLists& before, const SlotLists& after);
// The largest number of those on one rank.
std::int32_t most_changed_slots(const SlotLists& before, const SlotLists& after);

// `after` with experts that stay on their rank in the positions they had before.
SlotLists keep_positions(const SlotLists& before, SlotLists after);

// Experts in [0, `experts`) that stand in no list.
std::vector<ExpertId> without_copy(const SlotLists& lists, std::int32_t experts);

// Lists of the problem's ranks from experts by slot, and back.
SlotLists lists_of(const LayerProblem& problem, std::span<const std::int32_t> experts);
std::vector<std::int32_t> slots_of(const SlotLists& lists);

}  // namespace waybill
