// Where the shares of a layer's experts are going.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace waybill {

// One window of a layer: when it was, and the load of each expert [E].
struct TimedLoad {
  double time;
  std::vector<double> load;
};

// Each expert's share of the layer's load at time `when` [E], summing to 1: its share of all
// windows together, carried on along the drift that noise doesn't explain. Needs a load above 0.
std::vector<double> shares_at(std::span<const TimedLoad> windows, double when);

}  // namespace waybill
