// Which layers of a model hold experts: the rules that config files express.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "waybill/ids.h"

namespace waybill {

class ConfigFields;

std::vector<LayerId> every_layer(std::int32_t layers);
// From first_k_dense_replace (or `otherwise`) on, those whose index moe_layer_freq (default 1)
// divides.
std::vector<LayerId> layers_after_dense(const ConfigFields& fields, std::int32_t layers,
                                        std::optional<std::int32_t> otherwise = std::nullopt);
// Layer i when decoder_sparse_step (default 1) divides i + 1 and mlp_only_layers doesn't list it.
std::vector<LayerId> layers_by_sparse_step(const ConfigFields& fields, std::int32_t layers);

// Those that moe_layers lists; without it every interleave_moe_layer_step-th (default 1).
std::vector<LayerId> layers_by_interleave(const ConfigFields& fields, std::int32_t layers);
// Layer i from moe_layer_start_index (default 1) to moe_layer_end_index (default -1: the last) when
// moe_layer_interval (default 1) divides i + 1.
std::vector<LayerId> layers_by_interval(const ConfigFields& fields, std::int32_t layers);

}  // namespace waybill
