// Qwen3-MoE. Dense layers stand between MoE layers by step or by list.
#include "model/block_layouts.h"
#include "model/config_fields.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {

Family qwen3_moe() {
  return {
      .name = "qwen3_moe",
      .layouts = published_or_stacked({.experts = separate_experts()}),
      .sizes = {.ff = "moe_intermediate_size"},
      .configure =
          [](const ConfigFields& fields, ModelConfig& model) {
            model.moe_layers = layers_by_sparse_step(fields, model.layers);
            model.router.renormalize = fields.flag("norm_topk_prob", false);
          },
      .config = {{"norm_topk_prob", true}},
  };
}

}  // namespace waybill::families
