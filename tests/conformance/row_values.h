// Rows of numbers: what the library computed in hundredths against what a file states.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "conformance/report.h"
#include "conformance/trace.h"

namespace waybill::conformance {

// The member `key` of `object` against `derived` hundredths over `unit`. Exact while FP32 holds the
// hundredths exactly, to six digits beyond.
void expect_row(Report& report, const Value& object, std::string_view key,
                const std::vector<double>& derived, double unit, Code code);

// Members "row" and "row_hundredths" of the list's entries, which are the tokens in order.
void expect_outputs(Report& report, const Value& list, const Trace& trace);

// Each accepted route's row, by the combine of a problem in which every route is a token of its
// own: gates as they are, or all one.
using RowsByRoute = std::map<std::string, std::vector<double>>;
RowsByRoute weighted_rows(const Problem& problem, const ProcessGroup& group);
RowsByRoute expert_rows(const Problem& problem, const ProcessGroup& group);

}  // namespace waybill::conformance
