// What `verify` found in the files that it was given.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/error.h"

namespace waybill::cli {

enum class FileKind : std::uint8_t {
  placement,
  topology,
  groups,
  model_config,
  safetensors_index,
  safetensors,
  checkpoint,  // a folder
  loads,
  placement_table,  // of another system
};
std::string_view name(FileKind kind);

struct VerifiedFile {
  std::string path;
  std::optional<FileKind> kind;  // nullopt: it can't be read, or doesn't tell
  std::string holds;             // in a line, when nothing is wrong
  std::vector<Error> violations;
  std::vector<std::string> unchecked;  // what would need another file to be checked
};

// Each file by itself, and against those beside it: groups and placements against a topology,
// placements against groups, placements and loads against a model's configuration, where there is
// one of these.
std::vector<VerifiedFile> verify_files(std::span<const std::string> paths);

void print_text(std::span<const VerifiedFile> files);
void print_json(std::span<const VerifiedFile> files);

}  // namespace waybill::cli
