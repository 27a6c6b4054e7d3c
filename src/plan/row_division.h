// How many rows of each expert each of its replicas runs, so that the fullest rank stays lowest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "waybill/placement.h"

namespace waybill {

// `rows`: [E] routed rows of each expert over all ranks; their sum fits. Returns rows per replica,
// [Q]: the experts ascending, each one's replicas in manifest order. No other division has a lower
// largest rank load. Integers and fixed orders only, so every rank that knows `rows` gets the same
// division.
std::vector<std::int64_t> divide_rows(const Placement& placement,
                                      std::span<const std::int64_t> rows);

}  // namespace waybill
