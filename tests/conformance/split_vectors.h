// Matrices with an axis for every member of a group.
#pragma once

#include <initializer_list>
#include <string_view>

#include "conformance/report.h"

namespace waybill::conformance {

// Report::expect() for a matrix of the group's counts. A vector that lacks an axis or has one too
// many is a GroupShapeMismatch as well.
void expect_splits(Report& report, const Value& object, std::string_view key, const Json& derived,
                   std::initializer_list<Code> codes);

}  // namespace waybill::conformance
