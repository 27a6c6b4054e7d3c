#include "exec/resident_experts.h"

#include <utility>

#include "waybill/error.h"

namespace waybill {
namespace {

void check_expert(const ExpertBundle* bundle, ExpertId expert, const LayerOptions& options) {
  if (bundle == nullptr) {
    throw Error(Code::MissingTensor).at("layer", options.layer).at("expert", expert);
  }
  if (bundle->hidden() != options.hidden) {
    throw Error(Code::ShapeMismatch)
        .at("layer", options.layer)
        .at("expert", expert)
        .at("field", "hidden")
        .expected(options.hidden)
        .found(bundle->hidden());
  }
  if (bundle->dtype() != options.dtype) {
    throw Error(Code::DtypeMismatch)
        .at("layer", options.layer)
        .at("expert", expert)
        .expected(options.dtype)
        .found(bundle->dtype());
  }
}

}  // namespace

ResidentExperts::ResidentExperts(const Placement& placement, Rank rank, const LayerOptions& options,
                                 const ExpertSource& source) {
  for (const SlotId slot : placement.slots_on(rank)) {
    const ExpertId expert = placement.expert_of(slot);
    owners_.push_back(source(options.layer, expert));
    check_expert(owners_.back().get(), expert, options);
    by_slot_.push_back(owners_.back().get());
  }
}

std::shared_ptr<const ResidentExperts> ResidentExpertsCache::find(
    const PlacementVersion& version) const {
  const auto entry = by_version_.find(version.value);
  return entry == by_version_.end() ? nullptr : entry->second;
}

std::shared_ptr<const ResidentExperts> ResidentExpertsCache::load(const Generation& generation,
                                                                  Rank rank,
                                                                  const LayerOptions& options,
                                                                  const ExpertSource& source) {
  auto experts = std::make_shared<const ResidentExperts>(generation.layer(options.layer), rank,
                                                         options, source);
  by_version_[generation.version.value] = experts;
  return experts;
}

void ResidentExpertsCache::drop_retired(const PlacementRegistry& registry) {
  std::erase_if(by_version_, [&](const auto& entry) {
    return registry.state(PlacementVersion(entry.first)) == GenerationState::retired;
  });
}

}  // namespace waybill
