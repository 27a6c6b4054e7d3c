#include "placement/formats/placement_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "waybill/error.h"

namespace waybill {
namespace {

constexpr std::int64_t most_ids = std::int64_t{1} << 20U;

std::int32_t largest_expert(const PlacementTable& table) {
  std::int32_t largest = -1;
  for (const SlotLists& lists : table.slots) {
    for (const auto& list : lists) {
      for (std::int32_t e : list) largest = std::max(largest, e);
    }
  }
  return largest;
}

Error uncovered(const PlacementTable& table, std::size_t layer, const std::string& file) {
  return Error(Code::ReplicaCardinalityZero)
      .at("file", file)
      .at("layer", layer_at(table, layer))
      .expected(fmt::format("a slot for each of {} experts", table.experts));
}

void check_coverage(const PlacementTable& table, std::size_t layer, const std::string& file) {
  std::size_t slots = 0;
  for (const auto& list : table.slots[layer]) slots += list.size();
  if (std::cmp_less(slots, table.experts)) {  // an id alone must not size anything
    throw uncovered(table, layer, file).found(fmt::format("{} slots", slots));
  }
  std::vector<char> placed(static_cast<std::size_t>(table.experts), 0);
  for (std::size_t rank = 0; rank < table.slots[layer].size(); ++rank) {
    for (std::int32_t e : table.slots[layer][rank]) {
      if (e < 0 || e >= table.experts) {
        throw Error(Code::LogicalExpertMismatch)
            .at("file", file)
            .at("layer", layer_at(table, layer))
            .at("rank", rank)
            .expected(fmt::format("an expert in [0, {})", table.experts))
            .found(e);
      }
      placed[static_cast<std::size_t>(e)] = 1;
    }
  }
  const auto missing = std::ranges::find(placed, 0);
  if (missing == placed.end()) return;
  throw uncovered(table, layer, file)
      .at("expert", missing - placed.begin())
      .found(fmt::format("{} without", std::ranges::count(placed, 0)));
}

}  // namespace

std::vector<std::int32_t> read_slot_row(JsonValue row) {
  std::vector<std::int32_t> slots;
  for (std::int64_t e : row.as_integers(0, most_ids)) {
    slots.push_back(static_cast<std::int32_t>(e));
  }
  if (slots.empty()) throw row.error(Code::ShapeMismatch).expected("slots").found("none");
  return slots;
}

SlotRows read_slot_rows(JsonValue rows) {
  SlotRows read;
  for (JsonValue row : rows.elements()) {
    read.push_back(read_slot_row(row));
    if (read.back().size() != read.front().size()) {
      throw row.error(Code::ShapeMismatch)
          .expected(fmt::format("{} slots, as in the first layer", read.front().size()))
          .found(read.back().size());
    }
  }
  if (read.empty()) throw rows.error(Code::ShapeMismatch).expected("layers").found("none");
  return read;
}

SlotLists over_ranks(const std::vector<std::int32_t>& slots, const FileHints& hints,
                     const std::string& file) {
  if (!hints.ranks) {
    throw Error(Code::MissingField)
        .at("file", file)
        .at("field", "ranks")
        .expected("the number of ranks, which this format doesn't state")
        .note("--ranks N states it");
  }
  const auto ranks = static_cast<std::size_t>(*hints.ranks);
  if (ranks == 0 || slots.size() % ranks != 0) {
    throw Error(Code::SlotsNotEqual)
        .at("file", file)
        .expected(fmt::format("slots that divide over {} ranks", ranks))
        .found(fmt::format("{} slots", slots.size()));
  }
  const auto each = static_cast<std::ptrdiff_t>(slots.size() / ranks);
  SlotLists lists;
  for (auto from = slots.begin(); from != slots.end(); from += each) {
    lists.emplace_back(from, from + each);
  }
  return lists;
}

void check_table(PlacementTable& table, const FileHints& hints, const std::string& file) {
  table.experts = hints.experts.value_or(largest_expert(table) + 1);
  for (std::size_t i = 0; i < table.slots.size(); ++i) check_coverage(table, i, file);
}

LayerId layer_at(const PlacementTable& table, std::size_t i) {
  return table.every_layer ? LayerId(0) : table.layers[i];
}

SlotRows equal_rows(const PlacementTable& table, FileFormat format) {
  SlotRows rows;
  for (std::size_t i = 0; i < table.slots.size(); ++i) {
    const SlotLists& lists = table.slots[i];
    auto& row = rows.emplace_back();
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
      if (lists[rank].size() != table.slots[0][0].size()) {
        throw Error(Code::SlotsNotEqual)
            .at("format", format)
            .at("layer", layer_at(table, i))
            .at("rank", rank)
            .expected(fmt::format("{} slots, as on rank 0", table.slots[0][0].size()))
            .found(lists[rank].size())
            .note("format waybill states each rank's slots");
      }
      row.insert(row.end(), lists[rank].begin(), lists[rank].end());
    }
  }
  return rows;
}

void want_layers(const PlacementTable& table, FileFormat format) {
  if (!table.every_layer) return;
  throw Error(Code::MissingField)
      .at("format", format)
      .at("field", "layers")
      .expected("the layers that the placement is for, which this format lists")
      .found("one placement for every layer");
}

std::string row_text(std::span<const std::int32_t> row) {
  return fmt::format("[{}]", fmt::join(row, ","));
}

std::string rows_text(std::span<const std::vector<std::int32_t>> rows) {
  std::string text = "[";
  for (const auto& row : rows) {
    text += text.size() == 1 ? "\n  " : ",\n  ";
    text += row_text(row);
  }
  return text + "\n ]";
}

}  // namespace waybill
