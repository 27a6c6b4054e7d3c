// The terms of reference text 0x08I for one layer under one placement.
#pragma once

#include <cstddef>

#include "placement/balance/slots.h"
#include "waybill/balance.h"

namespace waybill {

// `from` is the placement that the move starts at.
ObjectiveTerms objective_terms(const LoadMatrix& load, std::size_t layer, const Cluster& cluster,
                               const SlotLists& from, const SlotLists& to,
                               const BalanceOptions& options);

}  // namespace waybill
