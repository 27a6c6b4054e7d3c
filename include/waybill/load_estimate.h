// The load to plan for, estimated from windows of observation. A solver consumes the estimate and
// predicts nothing itself. Source: reference text 0x08A, 0x08I.
//   const LoadMatrix decode = estimate_load(series.windows, {.phase = LoadPhase::decode});
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "waybill/load.h"
#include "waybill/load_file.h"

namespace waybill {

enum class Estimator : std::uint8_t {
  trailing,  // the sum of the windows
  ema,       // beta x the estimate so far + (1 - beta) x the next window (0x08I)
  trend,     // trailing, with each expert's share carried on along its drift
};
std::string_view name(Estimator estimator);

// Measured time of one expert's rows in one step: points by rising rows, straight lines between
// them, from 0 to the first and beyond the last.
struct KernelTime {
  std::vector<double> rows;
  std::vector<double> us;
};

struct EstimateOptions {
  Estimator estimator = Estimator::trailing;
  std::optional<LoadPhase> phase = std::nullopt;  // of the windows that count; all by default
  std::int32_t windows = 0;                       // the newest that count; 0: all
  double beta = 0.9;                              // ema: what the past weighs, in [0, 1)
  double ahead = 1;                               // trend: windows past the newest, 0 or more
  // Turns rows into time before they are put together: equal counts can take unequal times. Windows
  // must state their steps then.
  std::optional<KernelTime> kernel_time = std::nullopt;
};

// `windows` oldest first. Windows that are idle or without load are passed over; padding isn't in a
// window to begin with. The estimate states what it was made of: unit, phase (mixed where windows
// differ), aggregation, a window such as "trailing 8 windows, 2 idle passed over", router,
// checkpoint, topologies and placements ("v17, v18"), and the interval of steps.
//
// trend fits a line through each expert's share of its layer, windows weighing by their load, and
// shrinks the layer's slopes by the part of them that noise explains: without drift it is trailing.
// It needs three windows; with fewer it is trailing.
//
// Throws MissingField when no window is left or steps are needed and not stated; ShapeMismatch for
// windows of different layers, sources or experts; LoadUnitMismatch and LoadProvenanceMismatch for
// windows of different units, routers, checkpoints or ways of counting; InvalidValue for options
// out of range.
LoadMatrix estimate_load(std::span<const LoadWindow> windows, const EstimateOptions& options = {});

// One estimate for each phase that has windows, prefill first: a placement for each
// (options.phase is not read).
std::vector<LoadMatrix> estimate_by_phase(std::span<const LoadWindow> windows,
                                          const EstimateOptions& options = {});

}  // namespace waybill
