// The expert-major segments of every rank, as dispatch.json states them.
#pragma once

#include "conformance/check.h"

namespace waybill::conformance {

// Per rank: "rank", "segments" of "slot" and "rows" (and "logical_expert"), "offsets" (and
// "counts").
void expect_expert_segments(Report& report, const Value& list, const Problem& problem,
                            const Trace& trace);

}  // namespace waybill::conformance
