#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "placement/formats/loads.h"
#include "placement/formats/number_table.h"

namespace waybill {
namespace {

constexpr std::int64_t most_layers = std::int64_t{1} << 20U;

std::string label_in(JsonValue object, std::string_view key) {
  const auto value = object.find(key);
  return value ? std::string(value->as_string()) : std::string();
}

std::optional<std::int64_t> step_in(JsonValue object, std::string_view key) {
  const auto value = object.find(key);
  if (!value || value->is(JsonKind::null)) return std::nullopt;
  return value->as_integer();
}

// The member of `all` that the text names.
template <class Enumeration, std::size_t N>
Enumeration named(JsonValue value, const Enumeration (&all)[N]) {
  std::string names;
  for (Enumeration candidate : all) {
    if (name(candidate) == value.as_string()) return candidate;
    names += (names.empty() ? "" : ", ") + std::string(name(candidate));
  }
  throw value.error(Code::InvalidValue)
      .expected(fmt::format("one of {}", names))
      .found(value.as_string());
}

LoadPhase phase_in(JsonValue value) {
  return named(value, {LoadPhase::mixed, LoadPhase::prefill, LoadPhase::decode});
}

// Files that aren't of our schema name their unit in words of their own.
LoadUnit unit_in(JsonValue value, bool ours, std::vector<std::string>& warnings) {
  if (ours)
    return named(value, {LoadUnit::rows, LoadUnit::flops, LoadUnit::time_us, LoadUnit::cost});
  const std::string_view text = value.as_string();
  for (LoadUnit unit : {LoadUnit::flops, LoadUnit::time_us, LoadUnit::cost}) {
    if (text == name(unit)) return unit;
  }
  const bool rows = text.find("rows") != std::string_view::npos ||
                    text.find("tokens") != std::string_view::npos ||
                    text.find("assignments") != std::string_view::npos;
  if (!rows) warnings.push_back(fmt::format("unit \"{}\" is read as rows", value.text()));
  return LoadUnit::rows;
}

LoadProvenance provenance_in(JsonValue root, bool ours, std::vector<std::string>& warnings) {
  LoadProvenance provenance;
  if (const auto unit = root.find("unit")) provenance.unit = unit_in(*unit, ours, warnings);
  if (const auto phase = root.find("phase")) provenance.phase = phase_in(*phase);
  if (const auto aggregation = root.find("aggregation")) {
    provenance.aggregation = named(*aggregation, {Aggregation::count, Aggregation::mean,
                                                  Aggregation::quantile, Aggregation::moving});
  }
  provenance.window = label_in(root, "window");
  provenance.router = label_in(root, "router");
  provenance.checkpoint = CheckpointVersion(label_in(root, "checkpoint"));
  provenance.topology = label_in(root, "topology");
  provenance.placement = PlacementVersion(label_in(root, "placement"));
  provenance.counted = label_in(root, "counted");
  provenance.first_step = step_in(root, "first_step");
  provenance.last_step = step_in(root, "last_step");
  if (const auto ranks = root.find("ranks"); ranks && ours) {
    provenance.ranks = static_cast<std::int32_t>(ranks->as_integer(0, most_layers));
  }
  const auto padded = root.find("padded");
  if (padded && padded->as_bool()) {
    throw padded->error(Code::LoadProvenanceMismatch)
        .expected("real rows; name those that are padding under \"padding\" in each window")
        .found("rows that include padding");
  }
  return provenance;
}

std::vector<LayerId> layer_list(JsonValue list) {
  std::vector<LayerId> layers;
  for (JsonValue value : list.elements()) {
    layers.emplace_back(static_cast<std::int32_t>(value.as_integer(0, most_layers)));
  }
  std::vector<LayerId> sorted = layers;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) {
    throw list.error(Code::DuplicateKey).expected("each layer once");
  }
  return layers;
}

class NeutralLoads {
 public:
  NeutralLoads(JsonValue root, LoadRows& rows) : root_(root), rows_(rows) {
    ours_ = root.find("schema").has_value();
    if (const auto sources = root.find("sources")) {
      rows_.sources = static_cast<std::int32_t>(sources->as_integer(1, 1 << 16));
    }
  }

  void read(JsonValue table) {
    rows_.provenance = provenance_in(root_, ours_, rows_.warnings);
    if (const auto topk = root_.find("experts_per_token")) {
      rows_.topk = static_cast<std::int32_t>(topk->as_integer(1, 1 << 16));
    }
    if (table.key() == "windows") {
      for (JsonValue window : table.elements()) read_window(window);
      if (rows_.windows.empty()) throw table.error(Code::ShapeMismatch).expected("a window");
    } else {
      rows_.windows.push_back({read_load(table), {}, {}, {}, false});
    }
    read_layers();
    for (std::string_view key : {"experts", "num_experts"}) {
      const auto stated = root_.find(key);
      if (stated && stated->as_integer() != rows_.experts) {
        throw stated->error(Code::ShapeMismatch).expected(rows_.experts).found(stated->text());
      }
    }
  }

 private:
  // [rows, experts], or [rows, sources, experts] as the document says or as three axes do.
  std::vector<double> read_load(JsonValue value) {
    NumberTable table = read_numbers(value);
    const bool three = table.axes() == 3;
    if (three && !root_.find("sources")) rows_.sources = table.extent(1);
    if (table.axes() == 1 || (three && table.extent(1) != rows_.sources) ||
        (!three && rows_.sources != 1)) {
      throw value.error(Code::ShapeMismatch)
          .expected(rows_.sources == 1
                        ? "layers of experts"
                        : fmt::format("layers of {} sources of experts", rows_.sources))
          .found(fmt::format("[{}]", fmt::join(table.shape, ", ")));
    }
    const std::int32_t experts = table.extent(table.axes() - 1);
    if (rows_.rows == 0) {
      rows_.rows = table.extent(0);
      rows_.experts = experts;
    } else if (table.extent(0) != rows_.rows || experts != rows_.experts) {
      throw value.error(Code::ShapeMismatch)
          .expected(fmt::format("{} layers of {} experts, as before", rows_.rows, rows_.experts))
          .found(fmt::format("[{}]", fmt::join(table.shape, ", ")));
    }
    return std::move(table.values);
  }

  void read_window(JsonValue object) {
    RowWindow window;
    window.load = read_load(object.at("load"));
    window.first_step = step_in(object, "first_step");
    window.last_step = step_in(object, "last_step");
    if (const auto phase = object.find("phase")) window.phase = phase_in(*phase);
    if (const auto idle = object.find("idle")) window.idle = idle->as_bool();
    if (const auto padding = object.find("padding")) take_out(*padding, window.load);
    rows_.windows.push_back(std::move(window));
  }

  void take_out(JsonValue value, std::vector<double>& load) {
    const std::vector<double> padding = read_load(value);
    for (std::size_t i = 0; i < load.size(); ++i) {
      if (!(padding[i] >= 0 && padding[i] <= load[i])) {
        throw value.error(Code::InvalidValue)
            .at("entry", i)
            .expected(fmt::format("at most the {} rows that there are", load[i]))
            .found(padding[i]);
      }
      load[i] -= padding[i];
    }
  }

  // "layers" lists the layers of the rows, or counts them.
  void read_layers() {
    if (const auto dense = root_.find("dense_layers")) rows_.dense_layers = layer_list(*dense);
    const auto layers = root_.find("layers");
    if (!layers) return;
    const bool count = layers->is(JsonKind::integer);
    if (!count) rows_.layers = layer_list(*layers);
    const std::int64_t stated = count ? layers->as_integer() : std::ssize(rows_.layers);
    if (stated != rows_.rows) {
      throw layers->error(Code::ShapeMismatch)
          .expected(fmt::format("{}, as load has rows", rows_.rows))
          .found(stated);
    }
  }

  JsonValue root_;
  LoadRows& rows_;
  bool ours_ = false;
};

// The member that holds the loads of a file of one set.
std::optional<JsonValue> load_table(JsonValue object) {
  for (std::string_view key : {"windows", "load", "weight"}) {
    if (const auto table = object.find(key)) return table;
  }
  return std::nullopt;
}

// The load of the set that the caller names, or of the only one.
JsonValue chosen_set(JsonValue sets, const std::string& wanted) {
  std::vector<std::string> names;
  std::optional<JsonValue> chosen;
  for (JsonValue set : sets.elements()) {
    names.emplace_back(set.at("set").as_string());
    if (wanted.empty() || names.back() == wanted) chosen = set;
  }
  if (!chosen || (wanted.empty() && names.size() > 1)) {
    throw sets.error(Code::InvalidValue)
        .expected(fmt::format("one of the sets {}", fmt::join(names, ", ")))
        .found(wanted.empty() ? "none named" : wanted)
        .note("--set NAME chooses one");
  }
  return chosen->at("load");
}

}  // namespace

LoadRows waybill_loads(const JsonDocument& document, const FileHints& hints) {
  const JsonValue root = document.root();
  LoadRows rows;
  rows.file = document.file();
  if (root.is(JsonKind::array)) {
    const NumberTable table = read_numbers(root);
    if (table.axes() != 2) {
      throw root.error(Code::ShapeMismatch)
          .expected("layers of experts")
          .found(fmt::format("[{}]", fmt::join(table.shape, ", ")));
    }
    rows.rows = table.extent(0);
    rows.experts = table.extent(1);
    rows.windows.push_back({table.values, {}, {}, {}, false});
    return rows;
  }
  const auto sets = root.find("sets");
  const auto table = sets ? chosen_set(*sets, hints.set) : load_table(root);
  if (!table) {
    throw root.error(Code::UnknownFormat)
        .expected("one of logical_count, records, windows, load, weight and sets")
        .found("none of them");
  }
  if (table->key() == "weight") rows.format = FileFormat::eplb;
  NeutralLoads(root, rows).read(*table);
  return rows;
}

}  // namespace waybill
