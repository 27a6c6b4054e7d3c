// How many copies each expert gets.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/balance/layer_problem.h"

namespace waybill {

// Which apportionment divides the spare slots: each goes to the expert with the largest
// load^a / copies, a = 1 - 2^-halvings; a = 1 (kByLoad) makes the largest copy as small as it can
// be, a smaller a saves slots on the hottest experts for those in the middle.
using Halvings = std::int32_t;
inline constexpr Halvings kByLoad = -1;

// Copies [E]: each expert at least 1, the sum is the number of slots (of each node when only_home),
// and the copies fit the ranks with no two of one expert on a rank. Ties go to the expert with
// fewer copies, then to the lower id. Needs E <= slots, and no rank with more slots than experts.
std::vector<std::int32_t> apportion_copies(const LayerProblem& problem, Halvings halvings);

}  // namespace waybill
