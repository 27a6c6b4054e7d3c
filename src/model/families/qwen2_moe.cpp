// Qwen2-MoE. Qwen3-MoE's block and a shared expert with a gate of its own.
#include "model/config_fields.h"
#include "model/expert_names.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

void configure_qwen2_moe(const ConfigFields& fields, ModelConfig& model) {
  model.experts = fields.experts({"num_experts"});
  model.topk = fields.topk({"num_experts_per_tok"}, model.experts);
  model.ff = fields.width({"moe_intermediate_size"});
  model.shared_ff = fields.width({"shared_expert_intermediate_size"});
  model.moe_layers = layers_by_sparse_step(fields, model.layers);
  model.router.score = RouterScore::softmax_then_topk;
  model.router.renormalize = fields.flag("norm_topk_prob", false);
}

}  // namespace

Family qwen2_moe() {
  return {
      .name = "qwen2_moe",
      .module = "model.layers.{layer}.mlp",
      .layouts = published_or_stacked({.path = "model.layers.{layer}.mlp",
                                       .router = {.weight = "gate.weight"},
                                       .experts = separate_experts(),
                                       .shared = shared_expert(),
                                       .shared_router = "shared_expert_gate.weight"}),
      .configure = configure_qwen2_moe,
      .config = {{"num_experts", ModelSize::experts},
                 {"num_experts_per_tok", ModelSize::topk},
                 {"moe_intermediate_size", ModelSize::ff},
                 {"shared_expert_intermediate_size", ModelSize::ff},
                 {"norm_topk_prob", false}},
  };
}

}  // namespace waybill::families
