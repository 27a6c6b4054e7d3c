// Checks of what a plan is asked for, before any layer is solved.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "placement/balance/layer_problem.h"
#include "waybill/balance.h"

namespace waybill {

// The parts of every layer's problem that don't depend on its load, for the ranks that have slots.
struct ProblemFrame {
  LayerProblem problem;             // no load, no homes yet
  std::vector<std::int32_t> ranks;  // the cluster's number of each of the problem's ranks
  std::vector<std::string> warnings;
};

// Throws InvalidValue at `field` for a value below 1.
void want_positive(std::string_view field, std::int32_t value);

// Throws as balance() documents it.
ProblemFrame frame(std::int32_t experts, std::int32_t layers, const Cluster& cluster,
                   const BalanceOptions& options);

// A list for each layer of the load and each rank of the cluster, of experts that exist; or none.
void check_in_force(const LoadMatrix& load, const Cluster& cluster,
                    std::span<const SlotLists> in_force);

}  // namespace waybill
