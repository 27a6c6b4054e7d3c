// Load statistics as other systems write them, and our own schema for them: docs/balance.md.
//   const LoadSeries series = read_loads("expert_distribution_recorder_1722.json");
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/ids.h"
#include "waybill/load.h"

namespace waybill {

enum class FileFormat : std::uint8_t {
  waybill,
  sglang,
  vllm,    // placements only
  ascend,  // placements only
  tensorrt_llm,
  megatron,  // loads only
  eplb,      // the public solver's arguments and results
};
std::string_view name(FileFormat format);
// False when no format has that name; otherwise sets `format`.
bool find_format(std::string_view name, FileFormat& format);

struct LoadWindow {
  LoadMatrix load;    // real rows: padding that a file tells apart is taken out
  bool idle = false;  // no request ran
};

// Windows of time, oldest first; all have the same layers, sources and experts.
struct LoadSeries {
  FileFormat format = FileFormat::waybill;
  std::vector<LoadWindow> windows = {};
  std::vector<LayerId> dense_layers = {};           // as declared or found; windows leave them out
  std::optional<std::int32_t> topk = std::nullopt;  // experts that a token chooses
  std::vector<std::string> warnings = {};
};

// What files leave unsaid.
struct FileHints {
  std::vector<LayerId> dense_layers = {};              // declared rather than found
  std::optional<std::int32_t> experts = std::nullopt;  // of a placement; else its largest id + 1
  std::optional<std::int32_t> ranks = std::nullopt;    // of a placement that lists slots alone
  std::string set = {};                                // of a file that holds several named sets
  std::vector<std::vector<std::int32_t>> slot_experts = {};  // [L or 1][slots], for loads by slot
};

// Reads a file, or a folder of one file a rank. A layer whose row is zero in every window while
// other layers have load is taken for dense, with a warning, unless dense layers are declared.
// Errors name the file and the field: FileUnreadable, UnknownFormat, DocumentMalformed and the
// other input errors; MissingField for a rank without its file; InvalidValue, with layer, expert
// and value, for a load that is negative or not finite or a declared dense layer that has load;
// LoadProvenanceMismatch for rows that include padding nobody can tell apart.
LoadSeries read_loads(const std::string& path, const FileHints& hints = {});

// Writes the loads of a series: sources are summed and idle windows kept where a format has no
// word for them; eplb has one window, the sum. OptionNotBuilt for a format without loads;
// MissingField for TensorRT-LLM without `topk`; InvalidValue for a load that isn't whole where the
// format counts.
void write_loads(const std::string& path, FileFormat format, const LoadSeries& series);

}  // namespace waybill
