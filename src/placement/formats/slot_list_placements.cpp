// Formats that list experts by slot and leave ranks unsaid: SGLang, vLLM, the public solver.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "placement/formats/load_rows.h"
#include "placement/formats/placement_rows.h"
#include "placement/formats/placements.h"

namespace waybill {
namespace {

PlacementTable table_of_rows(const SlotRows& rows, FileFormat format, const FileHints& hints,
                             const std::string& file) {
  PlacementTable table;
  table.format = format;
  table.dense_layers = hints.dense_layers;
  table.layers = layers_around(static_cast<std::int32_t>(rows.size()), hints.dense_layers);
  for (const auto& row : rows) table.slots.push_back(over_ranks(row, hints, file));
  check_table(table, hints, file);
  return table;
}

std::optional<JsonValue> find_one(JsonValue root, std::string_view ours, std::string_view theirs) {
  const auto value = root.find(ours);
  return value ? value : root.find(theirs);
}

// By layer and expert: the slot of each copy.
using CopySlots = std::vector<std::vector<std::vector<std::int32_t>>>;

Error map_fault(const PlacementTable& table, std::size_t layer) {
  return Error(Code::PlacementMapMismatch).at("layer", layer_at(table, layer));
}

CopySlots copy_slots(const PlacementTable& table) {
  CopySlots layers;
  for (std::size_t i = 0; i < table.slots.size(); ++i) {
    const SlotLists replicas =
        table.replicas.empty() ? replica_numbers(table.slots[i], table.experts) : table.replicas[i];
    auto& experts = layers.emplace_back(static_cast<std::size_t>(table.experts));
    for (const auto& list : table.slots[i]) {
      for (std::int32_t e : list) experts[static_cast<std::size_t>(e)].push_back(-1);
    }
    std::int32_t slot = 0;
    for (std::size_t rank = 0; rank < table.slots[i].size(); ++rank) {
      for (std::size_t q = 0; q < table.slots[i][rank].size(); ++q, ++slot) {
        auto& copies = experts[static_cast<std::size_t>(table.slots[i][rank][q])];
        const auto copy = static_cast<std::size_t>(replicas[rank][q]);
        if (copy >= copies.size() || copies[copy] >= 0) {
          throw map_fault(table, i)
              .at("slot", slot)
              .expected(
                  fmt::format("one of the expert's copies 0 to {}, each once", copies.size() - 1))
              .found(copy);
        }
        copies[copy] = slot;
      }
    }
  }
  return layers;
}

// The inverse maps of a file say what its slots say.
void check_inverse(const PlacementTable& table, JsonValue root) {
  const CopySlots expected = copy_slots(table);
  const auto inverse = find_one(root, "log2phy", "logical_to_physical_map");
  const auto counts = find_one(root, "logcnt", "expert_count");
  const auto check_rows = [&](JsonValue value, const auto& check) {
    std::size_t layer = 0;
    for (JsonValue row : value.elements()) {
      if (layer >= expected.size() || row.size() != expected[layer].size()) break;
      std::size_t expert = 0;
      for (JsonValue entry : row.elements()) {
        if (!check(entry, expected[layer][expert])) {
          throw entry.error(Code::PlacementMapMismatch)
              .expected(fmt::format("expert {} in slots {}", expert,
                                    fmt::join(expected[layer][expert], " ")));
        }
        ++expert;
      }
      ++layer;
    }
    if (layer != expected.size() || value.size() != layer) {
      throw value.error(Code::ShapeMismatch)
          .expected(fmt::format("{} layers of {} experts", expected.size(), table.experts));
    }
  };
  if (counts) {
    check_rows(*counts, [](JsonValue entry, const auto& copies) {
      return std::cmp_equal(copies.size(), entry.as_integer());
    });
  }
  if (inverse) {
    check_rows(*inverse, [](JsonValue entry, const auto& copies) {
      auto slots = entry.as_integers(-1);
      while (!slots.empty() && slots.back() == -1) slots.pop_back();
      return std::ranges::equal(slots, copies);
    });
  }
}

}  // namespace

PlacementTable sglang_placement(const JsonDocument& document, const FileHints& hints) {
  const SlotRows all = read_slot_rows(document.root().at("physical_to_logical_map"));
  SlotRows rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const LayerId layer(static_cast<std::int32_t>(i));
    if (std::ranges::find(hints.dense_layers, layer) == hints.dense_layers.end()) {
      rows.push_back(all[i]);
    }
  }
  return table_of_rows(rows, FileFormat::sglang, hints, document.file());
}

std::string sglang_text(const PlacementTable& table) {
  want_layers(table, FileFormat::sglang);
  const SlotRows moe = equal_rows(table, FileFormat::sglang);
  // A dense layer has a row too; any map that covers the experts serves.
  std::vector<std::int32_t> any;
  for (std::size_t slot = 0; slot < moe[0].size(); ++slot) {
    any.push_back(static_cast<std::int32_t>(slot) % table.experts);
  }
  std::map<LayerId, const std::vector<std::int32_t>*> known;
  for (LayerId layer : table.dense_layers) known[layer] = &any;
  for (std::size_t i = 0; i < moe.size(); ++i) known[table.layers[i]] = &moe[i];
  SlotRows rows;
  for (const auto& [layer, row] : known) {
    const LayerId next(static_cast<std::int32_t>(rows.size()));
    if (layer != next) {
      throw Error(Code::MissingField)
          .at("format", FileFormat::sglang)
          .at("layer", next)
          .expected("a placement, or the layer among the dense ones: the format lists all layers");
    }
    rows.push_back(*row);
  }
  // The engine refuses further keys.
  return fmt::format("{{\"physical_to_logical_map\": {}}}\n", rows_text(rows));
}

PlacementTable vllm_placement(const JsonDocument& document, const FileHints& hints) {
  const JsonValue root = document.root();
  const bool one = root.size() > 0 && !(*root.elements().begin()).is(JsonKind::array);
  const SlotRows rows = one ? SlotRows{read_slot_row(root)} : read_slot_rows(root);
  PlacementTable table = table_of_rows(rows, FileFormat::vllm, hints, document.file());
  table.every_layer = one;
  if (one) table.layers.clear();
  return table;
}

std::string vllm_text(const PlacementTable& table) {
  const SlotRows rows = equal_rows(table, FileFormat::vllm);
  return (table.every_layer ? row_text(rows[0]) : rows_text(rows)) + "\n";
}

bool is_eplb(JsonValue root) {
  return root.find("phy2log") || (root.find("physical_to_logical_map") &&
                                  find_one(root, "log2phy", "logical_to_physical_map"));
}

PlacementTable eplb_placement(const JsonDocument& document, const FileHints& hints) {
  const JsonValue root = document.root();
  const SlotRows rows = read_slot_rows(*find_one(root, "phy2log", "physical_to_logical_map"));
  PlacementTable table = table_of_rows(rows, FileFormat::eplb, hints, document.file());
  if (const auto ranks = root.find("phyrank")) {
    const SlotRows numbers = read_slot_rows(*ranks);
    if (numbers.size() != table.slots.size()) {
      throw ranks->error(Code::ShapeMismatch)
          .expected(fmt::format("{} layers", table.slots.size()))
          .found(numbers.size());
    }
    for (const auto& row : numbers) {
      table.replicas.push_back(over_ranks(row, hints, document.file()));
      if (row.size() != rows[0].size()) {
        throw ranks->error(Code::ShapeMismatch).expected("as many slots as phy2log has");
      }
    }
  }
  try {
    check_inverse(table, root);
  } catch (Error& error) {
    if (error.coordinate("file").empty()) error.at("file", document.file());
    throw;
  }
  return table;
}

std::string eplb_text(const PlacementTable& table) {
  const SlotRows phy2log = equal_rows(table, FileFormat::eplb);
  SlotRows phyrank, logcnt;
  std::string log2phy = "[";
  std::size_t most = 0;
  const CopySlots layers = copy_slots(table);
  for (const auto& experts : layers) {
    for (const auto& copies : experts) most = std::max(most, copies.size());
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    auto& ranks = phyrank.emplace_back(phy2log[i].size());
    auto& counts = logcnt.emplace_back();
    log2phy += i == 0 ? "\n  [" : ",\n  [";
    for (std::size_t e = 0; e < layers[i].size(); ++e) {
      std::vector<std::int32_t> copies = layers[i][e];
      for (std::size_t n = 0; n < copies.size(); ++n) {
        ranks[static_cast<std::size_t>(copies[n])] = static_cast<std::int32_t>(n);
      }
      counts.push_back(static_cast<std::int32_t>(copies.size()));
      copies.resize(most, -1);
      if (e > 0) log2phy += ',';
      log2phy += row_text(copies);
    }
    log2phy += ']';
  }
  return fmt::format(
      "{{\n \"phy2log\": {},\n \"phyrank\": {},\n \"log2phy\": {}\n ],\n \"logcnt\": {}\n}}\n",
      rows_text(phy2log), rows_text(phyrank), log2phy, rows_text(logcnt));
}

SlotLists replica_numbers(const SlotLists& slots, std::int32_t experts) {
  std::vector<std::int32_t> next(static_cast<std::size_t>(experts), 0);
  SlotLists numbers;
  for (const auto& list : slots) {
    auto& own = numbers.emplace_back();
    for (std::int32_t e : list) own.push_back(next[static_cast<std::size_t>(e)]++);
  }
  return numbers;
}

}  // namespace waybill
