// Qwen2-MoE. Qwen3-MoE's block and a shared expert with a gate of its own.
#include "model/block_layouts.h"
#include "model/config_fields.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {

Family qwen2_moe() {
  return {
      .name = "qwen2_moe",
      .layouts = published_or_stacked({.experts = separate_experts(),
                                       .shared = shared_expert(),
                                       .shared_router = "shared_expert_gate.weight"}),
      .sizes = {.experts = {"num_experts"}, .ff = "moe_intermediate_size"},
      .configure =
          [](const ConfigFields& fields, ModelConfig& model) {
            model.shared_ff = fields.width({"shared_expert_intermediate_size"});
            model.moe_layers = layers_by_sparse_step(fields, model.layers);
            model.router.renormalize = fields.flag("norm_topk_prob", false);
          },
      .config = {{"shared_expert_intermediate_size", ExpertWidth{}}, {"norm_topk_prob", false}},
  };
}

}  // namespace waybill::families
