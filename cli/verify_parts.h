// The parts of `verify`: a file that was opened, what files say about one another, and the checks
// that fill a source of their own.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "failure.h"
#include "io/faults.h"
#include "io/json_document.h"
#include "verify_result.h"
#include "waybill/checkpoint.h"
#include "waybill/topology_manifest.h"

namespace waybill::cli {

// A file that told its kind. Documents are parsed once, for that and for their checks.
struct OpenFile {
  VerifiedFile result;
  std::optional<JsonDocument> document;

  void check(const auto& body) {
    const Faults faults =
        Faults::collect([&](Faults& found) { reading(result.path, [&] { body(found); }); });
    for (Error fault : faults.all()) {
      if (fault.coordinate("file").empty()) fault.at("file", result.path);
      result.violations.push_back(std::move(fault));
    }
  }
};

// What files say about one another; null where none of its kind, or several, or a faulty one.
struct Context {
  std::optional<TopologyManifest> topology;
  std::optional<Topology> ranks;  // of that topology
  std::optional<GroupTable> groups;
  std::optional<ModelConfig> model;
};

// "1 rank", "4 ranks".
std::string count(std::size_t n, std::string_view what);

// Loads and placements in the formats that `balance` and `convert` read. The kind that a document's
// fields tell, or nullopt.
std::optional<FileKind> exchanged_kind(const JsonValue& root);
// Loads of one file a rank, in a folder that is no checkpoint.
bool is_load_folder(const std::string& path);
void check_load_file(OpenFile& file, const Context& context);
void check_placement_table(OpenFile& file, const Context& context);

}  // namespace waybill::cli
