// Loads and placements as systems exchange them, by the readers that `balance` and `convert` have.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

#include "verify_parts.h"
#include "waybill/error.h"
#include "waybill/load_file.h"
#include "waybill/placement_file.h"

namespace waybill::cli {
namespace {

constexpr std::array load_fields{"logical_count", "records", "windows", "load", "weight", "sets"};
constexpr std::array placement_fields{"experts_by_rank", "physical_to_logical_map", "phy2log",
                                      "layer_list", "initial_global_assignments"};

// The sets of a file of several; else the only one, which has no name.
std::vector<std::string> set_names(const std::optional<JsonDocument>& document) {
  std::vector<std::string> names;
  if (document && document->root().is(JsonKind::object)) {
    if (const auto sets = document->root().find("sets")) {
      for (JsonValue set : sets->elements()) names.emplace_back(set.at("set").as_string());
    }
  }
  if (names.empty()) names.emplace_back();
  return names;
}

void require_experts(const ModelConfig& model, std::int32_t experts, Faults& faults) {
  if (experts == model.experts) return;
  faults.report(Error(Code::LogicalCountMismatch)
                    .expected(fmt::format("the model's {} experts", model.experts))
                    .found(experts));
}

std::string describe(const LoadSeries& series) {
  const LoadMatrix& load = series.windows.front().load;
  return fmt::format("{}: {} of {}, {}", name(series.format), count(load.layers().size(), "layer"),
                     count(static_cast<std::size_t>(load.experts()), "expert"),
                     count(series.windows.size(), "window"));
}

void check_against_model(const LoadSeries& series, const ModelConfig& model, Faults& faults) {
  const LoadMatrix& load = series.windows.front().load;
  require_experts(model, load.experts(), faults);
  for (LayerId layer : load.layers()) {
    if (layer.value < model.layers) continue;
    faults.report(Error(Code::InvalidValue)
                      .at("layer", layer)
                      .expected(fmt::format("a layer of the model's {}", model.layers))
                      .found(layer));
  }
}

// What a file leaves unsaid and the files beside it say. Any number of slots lies on one rank.
FileHints hints_of(const Context& context) {
  FileHints hints;
  hints.ranks = context.ranks ? context.ranks->ranks() : 1;
  if (!context.model) return hints;
  for (std::int32_t id = 0; id < context.model->layers; ++id) {
    const LayerId layer(id);
    if (std::ranges::find(context.model->moe_layers, layer) == context.model->moe_layers.end()) {
      hints.dense_layers.push_back(layer);
    }
  }
  return hints;
}

void check_against_model(const PlacementTable& table, const ModelConfig& model, Faults& faults) {
  require_experts(model, table.experts, faults);
  for (LayerId layer : table.layers) {
    if (std::ranges::find(model.moe_layers, layer) != model.moe_layers.end()) continue;
    faults.report(Error(Code::InvalidValue)
                      .at("layer", layer)
                      .expected("a MoE layer of the model")
                      .found(layer));
  }
}

}  // namespace

std::optional<FileKind> exchanged_kind(const JsonValue& root) {
  if (root.is(JsonKind::array) && root.size() > 0) return FileKind::placement_table;
  if (!root.is(JsonKind::object)) return std::nullopt;
  const auto has = [&](std::string_view field) { return root.find(field).has_value(); };
  if (std::ranges::any_of(placement_fields, has)) return FileKind::placement_table;
  if (std::ranges::any_of(load_fields, has)) return FileKind::loads;
  return std::nullopt;
}

bool is_load_folder(const std::string& path) {
  bool loads = false, tensors = false;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(path, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const std::string file = entry->path().filename();
    if (file == "config.json") return false;
    if (file == "meta_info.json") return true;
    tensors = tensors || file.ends_with(".safetensors");
    for (std::string_view ending : {".npz", ".json", ".json.gz"}) {
      loads = loads || file.ends_with(ending);
    }
  }
  return loads && !tensors;
}

void check_load_file(OpenFile& file, const Context& context) {
  std::vector<std::string> held;
  file.check([&](Faults& faults) {
    for (const std::string& set : set_names(file.document)) {
      FileHints hints;
      hints.set = set;
      const LoadSeries series = read_loads(file.result.path, hints);
      if (context.model) check_against_model(series, *context.model, faults);
      held.push_back(describe(series));
      std::ranges::copy(series.warnings, std::back_inserter(file.result.unchecked));
    }
  });
  if (!context.model) {
    file.result.unchecked.emplace_back("experts and layers of the model, without one config.json");
  }
  if (file.result.violations.empty()) file.result.holds = fmt::format("{}", fmt::join(held, "; "));
}

void check_placement_table(OpenFile& file, const Context& context) {
  std::optional<PlacementTable> table;
  file.check([&](Faults& faults) {
    table = read_placement_table(file.result.path, hints_of(context));
    if (context.ranks && table->ranks() != context.ranks->ranks()) {
      faults.report(Error(Code::RankCountMismatch)
                        .expected(fmt::format("the topology's {} ranks", context.ranks->ranks()))
                        .found(table->ranks()));
    }
    if (context.model) check_against_model(*table, *context.model, faults);
  });
  if (!context.ranks) {
    file.result.unchecked.emplace_back(
        "that the slots divide over the ranks, without one right topology");
  }
  if (!context.model) {
    file.result.unchecked.emplace_back("experts and layers of the model, without one config.json");
  }
  if (!file.result.violations.empty()) return;
  std::size_t slots = 0;
  for (const SlotLists& lists : table->slots) {
    for (const auto& list : lists) slots += list.size();
  }
  file.result.holds = fmt::format("{}: {}, {} in {}", name(table->format),
                                  count(static_cast<std::size_t>(table->experts), "expert"),
                                  count(slots, "slot"), count(table->slots.size(), "layer"));
}

}  // namespace waybill::cli
