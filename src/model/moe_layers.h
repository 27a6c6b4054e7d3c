// Which layers of a model hold experts: the rules that config files express.
#pragma once

#include <cstdint>
#include <vector>

#include "waybill/ids.h"

namespace waybill {

class ConfigFields;

std::vector<LayerId> every_layer(std::int32_t layers);
// From first_k_dense_replace on, those whose index moe_layer_freq (default 1) divides.
std::vector<LayerId> layers_after_dense(const ConfigFields& fields, std::int32_t layers);
// Layer i when decoder_sparse_step (default 1) divides i + 1 and mlp_only_layers doesn't list it.
std::vector<LayerId> layers_by_sparse_step(const ConfigFields& fields, std::int32_t layers);

}  // namespace waybill
