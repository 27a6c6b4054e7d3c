#include <fmt/format.h>

#include <charconv>
#include <map>
#include <utility>

#include "placement/formats/placement_rows.h"
#include "placement/formats/placements.h"

namespace waybill {
namespace {

LayerId layer_of_key(JsonValue member) {
  const std::string_view key = member.key();
  std::int32_t id = -1;
  const auto [rest, failure] = std::from_chars(key.data(), key.data() + key.size(), id);
  constexpr std::int32_t most_layers = 1 << 20;
  if (failure != std::errc{} || rest != key.data() + key.size() || id < 0 || id >= most_layers) {
    throw member.error(Code::InvalidValue).expected("a model layer as key").found(key);
  }
  return LayerId(id);
}

}  // namespace

PlacementTable tensorrt_llm_placement(const JsonDocument& document, const FileHints& hints) {
  const JsonValue root = document.root();
  const std::int64_t slots = root.at("num_slots").as_integer(1, 1 << 20);
  const JsonValue assignments = root.at("initial_global_assignments");
  std::map<LayerId, SlotLists> by_layer;
  for (JsonValue member : assignments.members()) {
    const std::vector<std::int32_t> row = read_slot_row(member);
    if (std::cmp_not_equal(row.size(), slots)) {
      throw member.error(Code::ShapeMismatch)
          .expected(fmt::format("{} slots, as num_slots says", slots))
          .found(row.size());
    }
    const LayerId layer = layer_of_key(member);
    if (!by_layer.emplace(layer, over_ranks(row, hints, document.file())).second) {
      throw member.error(Code::DuplicateKey).expected("each layer once").found(layer);
    }
  }
  if (by_layer.empty()) {
    throw assignments.error(Code::ShapeMismatch).expected("layers").found("none");
  }
  PlacementTable table;
  table.format = FileFormat::tensorrt_llm;
  table.dense_layers = hints.dense_layers;
  for (auto& [layer, lists] : by_layer) {
    table.layers.push_back(layer);
    table.slots.push_back(std::move(lists));
  }
  check_table(table, hints, document.file());
  return table;
}

std::string tensorrt_llm_text(const PlacementTable& table) {
  want_layers(table, FileFormat::tensorrt_llm);
  const SlotRows rows = equal_rows(table, FileFormat::tensorrt_llm);
  std::string text = fmt::format("num_slots: {}\ninitial_global_assignments:\n", rows[0].size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += fmt::format("  {}: [{}]\n", table.layers[i].value, fmt::join(rows[i], ", "));
  }
  return text + "layer_updates_per_iter: 0\n";  // the placement stands until the next one
}

}  // namespace waybill
