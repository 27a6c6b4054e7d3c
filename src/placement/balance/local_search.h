// Lowers the slowest rank step by step.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "placement/balance/assignment.h"

namespace waybill {

struct SearchLimits {
  double goal = 0;  // stops once the balance ratio is at or below it
  // Candidate moves to look at, a measure of work that doesn't depend on the machine.
  std::int64_t candidates = std::numeric_limits<std::int64_t>::max();
  std::int64_t moves = std::numeric_limits<std::int64_t>::max();
};

struct SearchWork {
  std::int64_t candidates = 0, moves = 0;
};

// Repeats, until nothing helps: from the slowest rank, the swap of one slot, else the replacement
// of one expert copy by another's, else the swap of two slots, after which the slowest of all
// ranks whose load rose is fastest — and faster than the slowest was. Deterministic: among equals
// the first in slot order wins.
SearchWork lower_slowest(Assignment& assignment, const SearchLimits& limits);

}  // namespace waybill
