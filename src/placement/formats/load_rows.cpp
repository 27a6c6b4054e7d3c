#include "placement/formats/load_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "waybill/error.h"

namespace waybill {
namespace {

bool contains(std::span<const LayerId> sorted, LayerId layer) {
  return std::ranges::binary_search(sorted, layer);
}

class RowNaming {
 public:
  RowNaming(LoadRows& rows, const FileHints& hints)
      : rows_(rows),
        row_size_(static_cast<std::size_t>(rows.sources) * static_cast<std::size_t>(rows.experts)) {
    dense_ = hints.dense_layers.empty() ? rows.dense_layers : hints.dense_layers;
    std::ranges::sort(dense_);
    const bool declared = !dense_.empty();
    if (!rows.layers.empty()) {
      layer_of_ = rows.layers;
    } else if (rows.counts_dense) {
      layer_of_ = layers_around(rows.rows, {});
      if (!declared) find_dense();
    } else {
      layer_of_ = layers_around(rows.rows, dense_);
    }
    check_dense();
  }

  LoadSeries series() {
    LoadSeries series;
    series.format = rows_.format;
    series.dense_layers = dense_;
    series.topk = rows_.topk;
    series.warnings = std::move(rows_.warnings);
    std::vector<LayerId> layers;
    for (LayerId layer : layer_of_) {
      if (!contains(dense_, layer)) layers.push_back(layer);
    }
    for (RowWindow& window : rows_.windows) {
      LoadProvenance provenance = rows_.provenance;
      if (window.first_step) provenance.first_step = window.first_step;
      if (window.last_step) provenance.last_step = window.last_step;
      if (window.phase) provenance.phase = *window.phase;
      LoadMatrix load(layers, rows_.sources, rows_.experts, moe_rows(window.load), provenance);
      const auto total = [&] {
        double sum = 0;
        for (std::size_t i = 0; i < layers.size(); ++i) {
          for (double value : load.by_source(i)) sum += value;
        }
        return sum;
      };
      const bool idle = window.idle || total() == 0;
      series.windows.push_back({std::move(load), idle});
    }
    return series;
  }

 private:
  bool has_load(std::size_t row) const {
    return std::ranges::any_of(rows_.windows, [&](const RowWindow& window) {
      const auto values = std::span(window.load).subspan(row * row_size_, row_size_);
      return std::ranges::any_of(values, [](double value) { return value != 0; });
    });
  }

  void find_dense() {
    for (std::size_t row = 0; row < layer_of_.size(); ++row) {
      if (!has_load(row)) dense_.push_back(layer_of_[row]);
    }
    if (dense_.size() == layer_of_.size()) {
      dense_.clear();  // nothing was routed at all
    } else if (!dense_.empty()) {
      std::vector<std::int32_t> ids;
      for (LayerId layer : dense_) ids.push_back(layer.value);
      rows_.warnings.push_back(
          fmt::format("layers without any load are taken for dense: {}", fmt::join(ids, " ")));
    }
  }

  void check_dense() const {
    for (std::size_t row = 0; row < layer_of_.size(); ++row) {
      if (!contains(dense_, layer_of_[row]) || !has_load(row)) continue;
      throw Error(Code::InvalidValue)
          .at("layer", layer_of_[row])
          .expected("no load, as the layer is declared dense")
          .found("load");
    }
  }

  std::vector<double> moe_rows(const std::vector<double>& load) const {
    std::vector<double> kept;
    for (std::size_t row = 0; row < layer_of_.size(); ++row) {
      if (contains(dense_, layer_of_[row])) continue;
      const auto values = std::span(load).subspan(row * row_size_, row_size_);
      kept.insert(kept.end(), values.begin(), values.end());
    }
    return kept;
  }

  LoadRows& rows_;
  std::size_t row_size_;
  std::vector<LayerId> layer_of_;  // [rows]
  std::vector<LayerId> dense_;
};

}  // namespace

std::vector<LayerId> layers_around(std::int32_t count, std::span<const LayerId> dense) {
  std::vector<LayerId> layers, sorted(dense.begin(), dense.end());
  std::ranges::sort(sorted);
  for (std::int32_t id = 0; layers.size() < static_cast<std::size_t>(count); ++id) {
    if (!contains(sorted, LayerId(id))) layers.emplace_back(id);
  }
  return layers;
}

LoadSeries series_of(LoadRows rows, const FileHints& hints) {
  try {
    return RowNaming(rows, hints).series();
  } catch (Error& error) {
    error.at("loads", rows.file);
    throw;
  }
}

std::vector<double> fold_slots(std::span<const double> by_slot, std::int32_t rows,
                               std::int32_t experts,
                               const std::vector<std::vector<std::int32_t>>& slot_experts,
                               const std::string& file) {
  const auto layers = static_cast<std::size_t>(rows), count = static_cast<std::size_t>(experts);
  const std::size_t slots = by_slot.size() / layers;
  if (slot_experts.size() != layers && slot_experts.size() != 1) {
    throw Error(Code::ShapeMismatch)
        .at("file", file)
        .at("field", "slots to experts")
        .expected(fmt::format("{} layers", layers))
        .found(slot_experts.size());
  }
  if (count > slots) {  // ids alone must not size the sums
    throw Error(Code::ReplicaCardinalityZero)
        .at("file", file)
        .expected(fmt::format("a slot for each of {} experts", count))
        .found(fmt::format("{} slots", slots));
  }
  std::vector<double> folded(layers * count, 0);
  for (std::size_t row = 0; row < layers; ++row) {
    const auto& map = slot_experts[slot_experts.size() == 1 ? 0 : row];
    if (map.size() != slots) {
      throw Error(Code::ShapeMismatch)
          .at("file", file)
          .at("row", row)
          .expected(fmt::format("an expert for each of {} slots", slots))
          .found(map.size());
    }
    for (std::size_t slot = 0; slot < slots; ++slot) {
      const std::int32_t e = map[slot];
      if (e < 0 || e >= experts) {
        throw Error(Code::LogicalExpertMismatch)
            .at("file", file)
            .at("row", row)
            .at("slot", slot)
            .expected(fmt::format("an expert in [0, {})", experts))
            .found(e);
      }
      folded[row * count + static_cast<std::size_t>(e)] += by_slot[row * slots + slot];
    }
  }
  return folded;
}

std::int32_t experts_in(const std::vector<std::vector<std::int32_t>>& slot_experts) {
  std::int32_t largest = -1;
  for (const auto& map : slot_experts) {
    for (std::int32_t e : map) largest = std::max(largest, e);
  }
  return largest + 1;
}

}  // namespace waybill
