// Estimated load of each logical expert, with where the estimate comes from: what a placement
// solver consumes. Source: reference text 0x08A.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/ids.h"

namespace waybill {

enum class LoadUnit : std::uint8_t { rows, flops, time_us, cost };  // cost: weighted, unitless
enum class LoadPhase : std::uint8_t { mixed, prefill, decode };
enum class Aggregation : std::uint8_t { count, mean, quantile, moving };

std::string_view name(LoadUnit unit);
std::string_view name(LoadPhase phase);
std::string_view name(Aggregation aggregation);

// An empty label or absent step means: not stated.
struct LoadProvenance {
  LoadUnit unit = LoadUnit::rows;
  LoadPhase phase = LoadPhase::mixed;
  Aggregation aggregation = Aggregation::count;
  std::string window;            // "512 steps", "trailing 8 windows"
  std::string router;            // version of the router, where it differs from the checkpoint's
  CheckpointVersion checkpoint;  // that served while the load was observed
  std::string topology;
  PlacementVersion placement;
  std::optional<std::int64_t> first_step, last_step;
  std::string counted;     // "at the source", "at the destination": before or after the exchange
  std::int32_t ranks = 0;  // that the loads are summed over; 0: not stated
};

// A load that is used against `in_use`: LoadUnitMismatch or LoadProvenanceMismatch, with the field,
// where both state it and they differ. Windows and steps are not compared.
void check_provenance(const LoadProvenance& load, const LoadProvenance& in_use);

// Non-negative finite loads of L MoE layers and E experts, from S source nodes (1: not told apart).
class LoadMatrix {
 public:
  // `load` [L, S, E]. ShapeMismatch when sizes disagree; InvalidValue, with layer, expert and
  // value, for a load that is negative or not finite.
  LoadMatrix(std::vector<LayerId> layers, std::int32_t sources, std::int32_t experts,
             std::vector<double> load, LoadProvenance provenance = {});

  std::span<const LayerId> layers() const { return layers_; }
  std::int32_t sources() const { return sources_; }
  std::int32_t experts() const { return experts_; }
  const LoadProvenance& provenance() const { return provenance_; }
  // [S, E] of the i-th layer.
  std::span<const double> by_source(std::size_t i) const;
  // [E], summed over sources.
  std::vector<double> total(std::size_t i) const;

 private:
  std::vector<LayerId> layers_;
  std::int32_t sources_, experts_;
  std::vector<double> load_;
  LoadProvenance provenance_;
};

}  // namespace waybill
