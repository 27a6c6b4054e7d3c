// What is reached at what number of changed slots.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/balance/layer_problem.h"
#include "placement/balance/slots.h"

namespace waybill {

struct Candidate {
  std::vector<std::int32_t> experts;  // by slot
  double ratio = 1;
  std::int32_t changed = 0;       // slots whose rank doesn't hold the expert in force
  std::int32_t most_changed = 0;  // of them on one rank
};

// `in_force` and `start` are lists of the problem's ranks; `start` keeps the problem's rules,
// `in_force` need not, and is empty when there is no placement in force.

// Placements on the way from `start` down to an even load, each better balanced than the one
// before it; `start` is the first.
std::vector<Candidate> frontier(const LayerProblem& problem, const SlotLists& start,
                                const SlotLists& in_force);

// `experts` (by slot), a placement made without regard to the one in force, its ranks renamed so
// that few slots change: ranks of equal speed, slots and node stand for each other.
Candidate from_scratch(const LayerProblem& problem, std::vector<std::int32_t> experts,
                       const SlotLists& in_force);

}  // namespace waybill
