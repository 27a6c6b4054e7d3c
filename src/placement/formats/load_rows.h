// Loads as a file's rows hold them, before it is known which layers those are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "waybill/load_file.h"

namespace waybill {

struct RowWindow {
  std::vector<double> load;  // [rows, sources, experts]
  std::optional<std::int64_t> first_step, last_step;
  std::optional<LoadPhase> phase;  // where it isn't that of all
  bool idle = false;
};

struct LoadRows {
  std::string file;
  FileFormat format = FileFormat::waybill;
  std::int32_t rows = 0, sources = 1, experts = 0;
  std::vector<LayerId> layers;  // [rows] where the file names them
  bool counts_dense = false;    // without names: rows of dense layers are there, as zeros
  std::vector<RowWindow> windows;
  std::vector<LayerId> dense_layers;  // as the file declares them
  std::optional<std::int32_t> topk;
  LoadProvenance provenance;
  std::vector<std::string> warnings;
};

// Names the layers, leaves dense ones out and checks every load.
LoadSeries series_of(LoadRows rows, const FileHints& hints);

// The first `count` layers that aren't in `dense`.
std::vector<LayerId> layers_around(std::int32_t count, std::span<const LayerId> dense);

// Loads by slot [rows, slots] added up by the expert in each slot, [rows, experts]. LayerId errors
// of `slot_experts` [rows or 1][slots]: ShapeMismatch, LogicalExpertMismatch.
std::vector<double> fold_slots(std::span<const double> by_slot, std::int32_t rows,
                               std::int32_t experts,
                               const std::vector<std::vector<std::int32_t>>& slot_experts,
                               const std::string& file);
// One more than the largest expert.
std::int32_t experts_in(const std::vector<std::vector<std::int32_t>>& slot_experts);

}  // namespace waybill
