#include "waybill/load.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "waybill/error.h"

namespace waybill {
namespace {

void check_label(std::string_view field, std::string_view load, std::string_view in_use) {
  if (load.empty() || in_use.empty() || load == in_use) return;
  throw Error(Code::LoadProvenanceMismatch).at("field", field).expected(in_use).found(load);
}

}  // namespace

std::string_view name(LoadUnit unit) {
  switch (unit) {
    case LoadUnit::rows: return "rows";
    case LoadUnit::flops: return "flops";
    case LoadUnit::time_us: return "time_us";
    case LoadUnit::cost: return "cost";
  }
  return "";
}

std::string_view name(LoadPhase phase) {
  switch (phase) {
    case LoadPhase::mixed: return "mixed";
    case LoadPhase::prefill: return "prefill";
    case LoadPhase::decode: return "decode";
  }
  return "";
}

std::string_view name(Aggregation aggregation) {
  switch (aggregation) {
    case Aggregation::count: return "count";
    case Aggregation::mean: return "mean";
    case Aggregation::quantile: return "quantile";
    case Aggregation::moving: return "moving";
  }
  return "";
}

void check_provenance(const LoadProvenance& load, const LoadProvenance& in_use) {
  if (load.unit != in_use.unit) {
    throw Error(Code::LoadUnitMismatch).expected(name(in_use.unit)).found(name(load.unit));
  }
  if (load.phase != in_use.phase) {
    throw Error(Code::LoadProvenanceMismatch)
        .at("field", "phase")
        .expected(name(in_use.phase))
        .found(name(load.phase));
  }
  check_label("router", load.router, in_use.router);
  check_label("checkpoint", load.checkpoint.value, in_use.checkpoint.value);
  check_label("topology", load.topology, in_use.topology);
  check_label("placement", load.placement.value, in_use.placement.value);
}

LoadMatrix::LoadMatrix(std::vector<LayerId> layers, std::int32_t sources, std::int32_t experts,
                       std::vector<double> load, LoadProvenance provenance)
    : layers_(std::move(layers)),
      sources_(sources),
      experts_(experts),
      load_(std::move(load)),
      provenance_(std::move(provenance)) {
  const auto per_layer = static_cast<std::size_t>(sources) * static_cast<std::size_t>(experts);
  if (sources < 1 || experts < 1 || load_.size() != layers_.size() * per_layer) {
    throw Error(Code::ShapeMismatch)
        .at("field", "load")
        .expected(
            fmt::format("{} layers of {} sources of {} experts", layers_.size(), sources, experts))
        .found(fmt::format("{} values", load_.size()));
  }
  for (std::size_t i = 0; i < load_.size(); ++i) {
    if (std::isfinite(load_[i]) && load_[i] >= 0) continue;
    throw Error(Code::InvalidValue)
        .at("layer", layers_[i / per_layer])
        .at("expert", i % static_cast<std::size_t>(experts))
        .expected("a finite load of 0 or more")
        .found(load_[i]);
  }
}

std::span<const double> LoadMatrix::by_source(std::size_t i) const {
  const auto per_layer = static_cast<std::size_t>(sources_) * static_cast<std::size_t>(experts_);
  return std::span(load_).subspan(i * per_layer, per_layer);
}

std::vector<double> LoadMatrix::total(std::size_t i) const {
  std::vector<double> total(static_cast<std::size_t>(experts_), 0);
  const std::span<const double> rows = by_source(i);
  for (std::size_t j = 0; j < rows.size(); ++j) total[j % total.size()] += rows[j];
  return total;
}

}  // namespace waybill
