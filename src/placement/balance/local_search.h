// Lowers the slowest rank step by step.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

#include "placement/balance/assignment.h"

namespace waybill {

struct SearchLimits {
  double goal = 0;  // stops once the balance ratio is at or below it
  // Candidate moves to look at, a measure of work that doesn't depend on the machine.
  std::int64_t candidates = std::numeric_limits<std::int64_t>::max();
};

// Repeats, until nothing helps: from the slowest rank, the swap of one slot, else of two slots,
// else the replacement of one expert's copy by another's, after which the slowest of all ranks
// whose load rose is fastest — and faster than the slowest was. Returns the candidates looked at.
// Deterministic: among equals the first in the order of ranks and loads wins.
std::int64_t lower_slowest(Assignment& assignment, const SearchLimits& limits,
                           const std::function<void()>& after_move = {});

}  // namespace waybill
