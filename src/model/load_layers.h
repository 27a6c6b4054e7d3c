// The strict loader: every tensor that a configuration implies is found, checked and turned into
// views, or the load fails.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/faults.h"
#include "io/safetensors_set.h"
#include "model/family.h"
#include "waybill/checkpoint.h"

namespace waybill {

struct LoadedLayer {
  Router router;
  std::vector<ExpertWeights> experts;  // [E]
  std::optional<ExpertWeights> shared;
  std::optional<Router> shared_router;
};

struct LoadedLayers {
  std::vector<LoadedLayer> layers;  // as ModelConfig::moe_layers
  Inventory inventory;
  std::string_view path;  // of a block in tensor names, as BlockLayout::path
  // Tensors whose place in the file isn't aligned to their element, copied to where it is.
  std::vector<std::unique_ptr<std::byte[]>> aligned;
};

// The layout is the family's first of which nothing is missing. Views point into `files`, which
// must outlive them. MissingTensor (of the layout that most expert tensors follow), ShapeMismatch,
// DtypeMismatch. With faults that are kept, the result is only fit to be thrown away.
LoadedLayers load_layers(const Family& family, const ModelConfig& model,
                         const SafetensorsSet& files, Faults& faults);

}  // namespace waybill
