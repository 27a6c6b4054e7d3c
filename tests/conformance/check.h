// A check of one set: its files, the library's plans of its primary inputs, and the report. Each
// kind of file is one function here and one line of the table in check.cpp.
#pragma once

#include "conformance/fixture_set.h"
#include "conformance/report.h"
#include "conformance/trace.h"

namespace waybill::conformance {

struct Check {
  const FixtureSet& set;
  Report& report;
  // The routes over the placement, ranks in ascending order; null where the set has no routes or
  // placement, or they contradict each other, which is reported once.
  const Problem* problem = nullptr;
  const Trace* trace = nullptr;
};

Report check_set(const FixtureSet& set);
// Only what one file states; the whole set still gives the inputs.
Report check_file(const FixtureSet& set, const std::string& file);

void check_identity(Check& check, const Value& root);
void check_routes(Check& check, const Value& root);
void check_placement(Check& check, const Value& root);
void check_dispatch(Check& check, const Value& root);
void check_bytes(Check& check, const Value& root);
void check_two_ranks(Check& check, const Value& root);
void check_topology(Check& check, const Value& root);

}  // namespace waybill::conformance
