// The public solver as one of balance()'s solvers.
#pragma once

#include "placement/balance/layer_problem.h"
#include "waybill/balance.h"
#include "waybill/eplb.h"

namespace waybill {

// Its plan for every layer of `load`. Needs equal slots and speeds and, unless homes are ignored,
// nodes that are equal runs of ranks: InvalidValue otherwise.
EplbPlan eplb_plan(const LoadMatrix& load, const LayerProblem& frame,
                   const BalanceOptions& options);

// Experts of each rank for one layer of the plan.
SlotLists eplb_lists(const EplbPlan& plan, std::size_t layer, std::int32_t ranks);

}  // namespace waybill
