// The options that `run` and `plan` share, and what they resolve to.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "waybill/dtype.h"
#include "waybill/ids.h"
#include "waybill/layer.h"
#include "waybill/placement.h"
#include "waybill/selection.h"
#include "waybill/topology.h"

namespace waybill::cli {

class Subcommand;

// As typed. Ranks and nodes are 0 until resolve_layout() when they aren't.
struct StepOptions {
  std::string checkpoint;
  std::int64_t ranks = 0;
  std::int64_t nodes = 0;
  std::string topology;
  std::string groups;
  std::string peer_order;
  std::string placement;
  std::string selector = "first";
  bool dedup = false;
  std::string runner = "grouped";
  std::string exchange = "flat";
  std::string transport = "local";
  std::string device = "cpu";
  std::string dtype = "f32";
  std::string checks = "counts";
  std::int64_t tokens = 64;
  std::string layers;
  std::uint64_t seed = 0;
  std::int64_t timeout_ms = 30'000;
  bool json = false;
};

void add_step_options(Subcommand& command, StepOptions& options);

// The values that name a way of running. OptionNotBuilt for one that this build doesn't have,
// UsageError for one that nobody has.
struct StepSettings {
  DType dtype = DType::f32;
  Selector selector = Selector::first;
  Checks checks = Checks::counts;
};
StepSettings resolve_settings(const StepOptions& options);

// Who takes part and where experts live.
struct Layout {
  Topology topology;
  ProcessGroup group;
  Generation generation;
};
// `layers` are the model's MoE layers. Sets the options' ranks and nodes to what the layout has.
// Ranks and nodes are those of --topology; --ranks and --nodes may only say the same (UsageError).
// The peer order is that of the group that the placement names, or of the only full_ep group, where
// --groups or the topology file holds groups, else --peer-order. Without --placement every layer
// gets contiguous runs of experts. TooManyRanks, PeerOrderInvalid, ProcessGroupMismatch,
// GroupShapeMismatch (a group without some rank); the errors of manifests name their file.
Layout resolve_layout(StepOptions& options, std::int32_t experts, std::span<const LayerId> layers);

// "0,2-5" of the model's MoE layers, ascending; all of them when empty. InvalidValue for a layer
// that has no experts.
std::vector<LayerId> resolve_layers(const StepOptions& options, std::span<const LayerId> layers);

}  // namespace waybill::cli
