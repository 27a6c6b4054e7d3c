#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "placement/formats/load_rows.h"
#include "placement/formats/placement_rows.h"
#include "placement/formats/placements.h"

namespace waybill {
namespace {

// A member that counts another one's entries, or numbers its own place.
void check_ordinal(JsonValue object, std::string_view key, std::size_t expected) {
  const JsonValue value = object.at(key);
  if (std::cmp_equal(value.as_integer(), expected)) return;
  throw value.error(Code::InvalidValue).expected(expected).found(value.text());
}

SlotLists read_devices(JsonValue layer) {
  const JsonValue list = layer.at("device_list");
  check_ordinal(layer, "device_count", list.size());
  SlotLists lists;
  for (JsonValue device : list.elements()) {
    check_ordinal(device, "device_id", lists.size());
    const JsonValue experts = device.at("device_expert");
    lists.push_back(read_slot_row(experts));
    if (lists.back().size() != lists.front().size()) {
      throw experts.error(Code::SlotsNotEqual)
          .expected(fmt::format("{} slots, as on the first device", lists.front().size()))
          .found(lists.back().size());
    }
  }
  return lists;
}

}  // namespace

PlacementTable ascend_placement(const JsonDocument& document, const FileHints& hints) {
  const JsonValue root = document.root(), list = root.at("layer_list");
  check_ordinal(root, "moe_layer_count", list.size());
  PlacementTable table;
  table.format = FileFormat::ascend;
  table.dense_layers = hints.dense_layers;
  // layer_id counts MoE layers.
  table.layers = layers_around(static_cast<std::int32_t>(list.size()), hints.dense_layers);
  for (JsonValue layer : list.elements()) {
    check_ordinal(layer, "layer_id", table.slots.size());
    table.slots.push_back(read_devices(layer));
    if (table.slots.back().size() != table.slots.front().size() || table.slots.back().empty()) {
      throw layer.error(Code::ShapeMismatch)
          .expected(fmt::format("{} devices, as in the first layer", table.slots.front().size()))
          .found(table.slots.back().size());
    }
  }
  if (table.slots.empty()) throw list.error(Code::ShapeMismatch).expected("layers").found("none");
  check_table(table, hints, document.file());
  return table;
}

std::string ascend_text(const PlacementTable& table) {
  want_layers(table, FileFormat::ascend);
  equal_rows(table, FileFormat::ascend);
  std::string text =
      fmt::format("{{\"moe_layer_count\": {}, \"layer_list\": [", table.slots.size());
  for (std::size_t i = 0; i < table.slots.size(); ++i) {
    text += fmt::format("{}\n {{\"layer_id\": {}, \"device_count\": {}, \"device_list\": [",
                        i == 0 ? "" : ",", i, table.slots[i].size());
    for (std::size_t rank = 0; rank < table.slots[i].size(); ++rank) {
      text += fmt::format("{}\n  {{\"device_id\": {}, \"device_expert\": {}}}",
                          rank == 0 ? "" : ",", rank, row_text(table.slots[i][rank]));
    }
    text += "\n ]}";
  }
  return text + "\n]}\n";
}

}  // namespace waybill
