// Options for what files of other systems leave unsaid, and the names of formats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/load_file.h"

namespace waybill::cli {

class Subcommand;

// As typed.
struct FileOptions {
  std::string set;
  std::string dense_layers;
  std::string slot_map;
};
void add_file_options(Subcommand& command, FileOptions& options);

// `ranks` is for a placement that lists slots alone, of --slot-map; 0 when nobody said.
FileHints hints_of(const FileOptions& options, std::int64_t ranks);

// "sglang", "tensorrt_llm" or "tensorrt-llm", … UsageError for a format that nobody has.
FileFormat format_of(std::string_view option, const std::string& word);
// All of them, for a help text.
std::string format_names();

// "0,2-5" → 0 2 3 4 5, as typed. InvalidValue.
std::vector<std::int32_t> parse_ids(std::string_view option, std::string_view list);

}  // namespace waybill::cli
