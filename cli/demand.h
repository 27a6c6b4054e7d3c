// The demand that a plan is made for: an estimate from the windows of a load file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "waybill/load_file.h"

namespace waybill::cli {

class Subcommand;

// As typed.
struct WindowOptions {
  std::string estimator = "trailing";
  std::string phase;        // mixed, prefill or decode; empty: windows of any
  std::int64_t newest = 0;  // windows, counted from the last; 0: all
  double beta = 0.9;
  double ahead = 1;
};
void add_window_options(Subcommand& command, WindowOptions& options);

struct Demand {
  LoadMatrix load;
  std::size_t windows = 0, idle = 0;  // of the phase: with load; passed over
};

// Where no window has load, the demand is zero. MissingField when none is of the phase; the errors
// of estimate_load().
Demand estimate(const LoadSeries& series, const WindowOptions& options);

}  // namespace waybill::cli
