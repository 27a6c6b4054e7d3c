#include "model/moe_layers.h"

#include <algorithm>
#include <limits>

#include "model/config_fields.h"

namespace waybill {
namespace {

template <class Holds>
std::vector<LayerId> layers_where(std::int32_t layers, Holds holds_experts) {
  std::vector<LayerId> chosen;
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    if (holds_experts(layer)) chosen.emplace_back(layer);
  }
  return chosen;
}

}  // namespace

std::vector<LayerId> every_layer(std::int32_t layers) {
  return layers_where(layers, [](std::int32_t) { return true; });
}

std::vector<LayerId> layers_after_dense(const ConfigFields& fields, std::int32_t layers,
                                        std::optional<std::int32_t> otherwise) {
  const std::int32_t dense = fields.integer({"first_k_dense_replace"}, 0, layers, otherwise);
  const std::int32_t step = fields.integer({"moe_layer_freq"}, 1, layers, 1);
  return layers_where(layers,
                      [=](std::int32_t layer) { return layer >= dense && layer % step == 0; });
}

std::vector<LayerId> layers_by_sparse_step(const ConfigFields& fields, std::int32_t layers) {
  const std::int32_t step = fields.integer({"decoder_sparse_step"}, 1, layers, 1);
  const std::vector<std::int64_t> dense = fields.integers("mlp_only_layers", 0, layers - 1);
  return layers_where(layers, [&](std::int32_t layer) {
    return (layer + 1) % step == 0 && std::find(dense.begin(), dense.end(), layer) == dense.end();
  });
}

std::vector<LayerId> layers_by_interleave(const ConfigFields& fields, std::int32_t layers) {
  if (fields.find("moe_layers")) {
    const std::vector<std::int64_t> listed = fields.integers("moe_layers", 0, layers - 1);
    return layers_where(layers, [&](std::int32_t layer) {
      return std::find(listed.begin(), listed.end(), layer) != listed.end();
    });
  }
  const std::int32_t step = fields.integer({"interleave_moe_layer_step"}, 1, layers, 1);
  return layers_where(layers, [=](std::int32_t layer) { return (layer + 1) % step == 0; });
}

std::vector<LayerId> layers_by_interval(const ConfigFields& fields, std::int32_t layers) {
  constexpr std::int32_t any = std::numeric_limits<std::int32_t>::max();
  const std::int32_t start = fields.integer({"moe_layer_start_index"}, 0, any, 1);
  const std::int32_t stated_end = fields.integer({"moe_layer_end_index"}, -1, any, -1);
  const std::int32_t end = stated_end == -1 ? layers - 1 : stated_end;
  const std::int32_t step = fields.integer({"moe_layer_interval"}, 1, any, 1);
  return layers_where(layers, [=](std::int32_t layer) {
    return layer >= start && layer <= end && (layer + 1) % step == 0;
  });
}

}  // namespace waybill
