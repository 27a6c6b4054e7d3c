// Qwen3-MoE. Dense layers stand between MoE layers by step or by list.
#include "model/config_fields.h"
#include "model/expert_names.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

void configure_qwen3_moe(const ConfigFields& fields, ModelConfig& model) {
  model.experts = fields.experts({"num_experts", "num_local_experts"});
  model.topk = fields.topk({"num_experts_per_tok"}, model.experts);
  model.ff = fields.width({"moe_intermediate_size"});
  model.moe_layers = layers_by_sparse_step(fields, model.layers);
  model.router.score = RouterScore::softmax_then_topk;
  model.router.renormalize = fields.flag("norm_topk_prob", false);
}

}  // namespace

Family qwen3_moe() {
  return {
      .name = "qwen3_moe",
      .module = "model.layers.{layer}.mlp",
      .layouts = published_or_stacked({.path = "model.layers.{layer}.mlp",
                                       .router = {.weight = "gate.weight"},
                                       .experts = separate_experts()}),
      .configure = configure_qwen3_moe,
      .config = {{"num_experts", ModelSize::experts},
                 {"num_experts_per_tok", ModelSize::topk},
                 {"moe_intermediate_size", ModelSize::ff},
                 {"norm_topk_prob", true}},
  };
}

}  // namespace waybill::families
