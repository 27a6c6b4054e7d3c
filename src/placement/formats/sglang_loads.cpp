#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "placement/formats/loads.h"
#include "placement/formats/number_table.h"

namespace waybill {
namespace {

void take_statistics(JsonValue counts, LoadRows& rows) {
  const NumberTable table = read_numbers(counts);
  if (table.axes() < 2) {
    throw counts.error(Code::ShapeMismatch)
        .expected("[windows][layers][experts] or [layers][experts]")
        .found(fmt::format("[{}]", table.shape[0]));
  }
  rows.rows = table.extent(table.axes() - 2);
  rows.experts = table.extent(table.axes() - 1);
  const auto size = static_cast<std::ptrdiff_t>(rows.rows) * rows.experts;
  for (auto at = table.values.begin(); at != table.values.end(); at += size) {
    RowWindow window;
    window.load.assign(at, at + size);
    rows.windows.push_back(std::move(window));
  }
}

std::vector<std::vector<std::int32_t>> read_map(JsonValue map) {
  std::vector<std::vector<std::int32_t>> layers;
  for (JsonValue layer : map.elements()) {
    auto& slots = layers.emplace_back();
    for (std::int64_t e : layer.as_integers(0, 1 << 20)) {
      slots.push_back(static_cast<std::int32_t>(e));
    }
  }
  return layers;
}

// Detail dumps: counts by slot of each forward pass, one file a rank. Passes become windows.
class DetailDumps {
 public:
  explicit DetailDumps(LoadRows& rows) : rows_(rows) {}

  void add(JsonValue root) {
    const JsonValue map = root.at("last_physical_to_logical_map");
    const auto slot_experts = read_map(map);
    const std::int32_t experts = experts_in(slot_experts);
    if (rows_.experts == 0) {
      rows_.experts = experts;
      rows_.rows = static_cast<std::int32_t>(slot_experts.size());
    } else if (experts != rows_.experts || std::cmp_not_equal(slot_experts.size(), rows_.rows)) {
      throw map.error(Code::ShapeMismatch)
          .expected(fmt::format("{} layers of {} experts, as on the other ranks", rows_.rows,
                                rows_.experts))
          .found(fmt::format("{} layers of {}", slot_experts.size(), experts));
    }
    std::int64_t pass = 0;
    for (JsonValue record : root.at("records").elements()) {
      const auto stated = record.find("forward_pass_id");
      add_pass(stated ? stated->as_integer() : pass, record.at("global_physical_count"),
               slot_experts);
      ++pass;
    }
    ++rows_.provenance.ranks;
  }

  void finish(JsonValue root) {
    if (passes_.empty()) throw root.error(Code::MissingField).expected("a record").found("none");
    for (auto& [pass, load] : passes_) {
      RowWindow window;
      window.load = std::move(load);
      window.first_step = window.last_step = pass;
      rows_.windows.push_back(std::move(window));
    }
  }

 private:
  void add_pass(std::int64_t pass, JsonValue counts,
                const std::vector<std::vector<std::int32_t>>& slot_experts) {
    const NumberTable table = read_numbers(counts);
    if (table.axes() != 2 || table.extent(0) != rows_.rows) {
      throw counts.error(Code::ShapeMismatch)
          .expected(fmt::format("{} layers of slots", rows_.rows))
          .found(fmt::format("[{}]", fmt::join(table.shape, ", ")));
    }
    const auto folded =
        fold_slots(table.values, rows_.rows, rows_.experts, slot_experts, rows_.file);
    auto& sum = passes_[pass];
    sum.resize(folded.size(), 0);
    for (std::size_t i = 0; i < folded.size(); ++i) sum[i] += folded[i];
  }

  LoadRows& rows_;
  std::map<std::int64_t, std::vector<double>> passes_;
};

}  // namespace

bool is_sglang(JsonValue root) {
  return root.is(JsonKind::object) && (root.find("logical_count") || root.find("records"));
}

LoadRows sglang_loads(std::span<const JsonDocument> documents) {
  LoadRows rows;
  rows.file = documents.front().file();
  rows.format = FileFormat::sglang;
  rows.counts_dense = true;
  if (const auto counts = documents.front().root().find("logical_count")) {
    if (documents.size() > 1) {
      throw counts->error(Code::DuplicateKey)
          .expected("one file of statistics, which is summed over ranks already")
          .found(fmt::format("{} files", documents.size()));
    }
    take_statistics(*counts, rows);
    return rows;
  }
  DetailDumps dumps(rows);
  for (const JsonDocument& document : documents) dumps.add(document.root());
  dumps.finish(documents.front().root());
  return rows;
}

}  // namespace waybill
