// The dispatch/combine fence of placement_v17.json and its generation states, walked on the
// library's registry (reference text 0x02B3).
#pragma once

#include "conformance/check.h"

namespace waybill::conformance {

// Which states take new dispatches and pinned combines, and which transitions exist.
void check_generation_states(Check& check, const Value& root);
// Each step's verdict, states and references, each probe, and the printed manifest's own state.
void check_fence(Check& check, const Value& root);

}  // namespace waybill::conformance
