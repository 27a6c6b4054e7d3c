// The experts of one rank's slots, resolved once per generation.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "waybill/layer.h"
#include "waybill/registry.h"

namespace waybill {

class ResidentExperts {
 public:
  ResidentExperts(const Placement& placement, Rank rank, const LayerOptions& options,
                  const ExpertSource& source);

  // [Q_local] in the rank's local slot order.
  std::span<const ExpertBundle* const> by_slot() const { return by_slot_; }

 private:
  std::vector<std::shared_ptr<const ExpertBundle>> owners_;
  std::vector<const ExpertBundle*> by_slot_;
};

// Keeps a generation's experts until the generation is retired; a step in flight keeps its own.
class ResidentExpertsCache {
 public:
  // Null before the generation's load().
  std::shared_ptr<const ResidentExperts> find(const PlacementVersion& version) const;
  // Throws what the source throws; ShapeMismatch or DtypeMismatch for an expert that doesn't fit
  // the layer, MissingTensor when the source has none.
  std::shared_ptr<const ResidentExperts> load(const Generation& generation, Rank rank,
                                              const LayerOptions& options,
                                              const ExpertSource& source);
  void drop_retired(const PlacementRegistry& registry);

 private:
  std::map<std::string, std::shared_ptr<const ResidentExperts>> by_version_;
};

}  // namespace waybill
