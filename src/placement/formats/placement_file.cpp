#include "waybill/placement_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "io/text_file.h"
#include "placement/formats/json_source.h"
#include "placement/formats/placements.h"
#include "waybill/error.h"

namespace waybill {
namespace {

bool is_manifest(JsonValue root) {
  const auto slots = root.find("slots");  // a load file may count them
  return root.find("placement_version") || root.find("experts_by_rank") ||
         (slots && slots->is(JsonKind::array));
}

}  // namespace

PlacementTable read_placement_table(const std::string& path, const FileHints& hints) {
  if (is_yaml_name(path)) return tensorrt_llm_placement(read_yaml_source(path), hints);
  const JsonDocument document = read_json_source(path);
  const JsonValue root = document.root();
  if (root.is(JsonKind::array)) return vllm_placement(document, hints);
  if (!root.is(JsonKind::object)) {
    throw root.error(Code::UnknownFormat).expected("an object or an array").found(root.text());
  }
  if (is_manifest(root)) return waybill_placement(document, hints);
  if (is_eplb(root)) return eplb_placement(document, hints);
  if (root.find("physical_to_logical_map")) return sglang_placement(document, hints);
  if (root.find("layer_list")) return ascend_placement(document, hints);
  if (root.find("initial_global_assignments")) return tensorrt_llm_placement(document, hints);
  throw root.error(Code::UnknownFormat)
      .expected(
          "one of placement_version, physical_to_logical_map, phy2log, layer_list and "
          "initial_global_assignments")
      .found("none of them");
}

std::string placement_text(FileFormat format, const PlacementTable& table) {
  switch (format) {
    case FileFormat::waybill: return waybill_text(table);
    case FileFormat::sglang: return sglang_text(table);
    case FileFormat::vllm: return vllm_text(table);
    case FileFormat::ascend: return ascend_text(table);
    case FileFormat::tensorrt_llm: return tensorrt_llm_text(table);
    case FileFormat::eplb: return eplb_text(table);
    case FileFormat::megatron: break;
  }
  throw Error(Code::OptionNotBuilt)
      .at("format", format)
      .expected("waybill, sglang, vllm, ascend, tensorrt_llm or eplb for a placement");
}

void write_placement_table(const std::string& path, FileFormat format,
                           const PlacementTable& table) {
  write_text_file(path, placement_text(format, table));
}

bool holds_loads(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored) || path.ends_with(".npz")) return true;
  if (is_yaml_name(path)) return false;
  const JsonDocument document = read_json_source(path);
  const JsonValue root = document.root();
  if (!root.is(JsonKind::object)) return false;
  for (std::string_view key : {"logical_count", "records", "windows", "load", "weight", "sets"}) {
    // A placement may say what load it was planned for.
    if (root.find(key)) return !is_manifest(root);
  }
  return false;
}

std::vector<SlotLists> lists_for(const PlacementTable& table, std::span<const LayerId> layers) {
  std::vector<SlotLists> lists;
  for (LayerId layer : layers) {
    const auto own = std::ranges::find(table.layers, layer);
    if (!table.every_layer && own == table.layers.end()) {
      throw Error(Code::MissingField)
          .at("layer", layer)
          .expected("a placement of each layer that has loads")
          .found(fmt::format("layers {}", [&] {
            std::vector<std::int32_t> ids;
            for (LayerId known : table.layers) ids.push_back(known.value);
            return fmt::format("{}", fmt::join(ids, " "));
          }()));
    }
    lists.push_back(
        table.slots[table.every_layer ? 0 : static_cast<std::size_t>(own - table.layers.begin())]);
  }
  return lists;
}

}  // namespace waybill
