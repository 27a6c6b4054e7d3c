// OLMoE. Every layer holds experts; gates are not renormalised unless the config says so.
#include "model/config_fields.h"
#include "model/expert_names.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

void configure_olmoe(const ConfigFields& fields, ModelConfig& model) {
  model.experts = fields.experts({"num_experts", "num_local_experts"});
  model.topk = fields.topk({"num_experts_per_tok"}, model.experts);
  model.ff = fields.width({"intermediate_size"});
  model.moe_layers = every_layer(model.layers);
  model.router.score = RouterScore::softmax_then_topk;
  model.router.renormalize = fields.flag("norm_topk_prob", false);
}

}  // namespace

Family olmoe() {
  return {
      .name = "olmoe",
      .module = "model.layers.{layer}.mlp",
      .layouts = published_or_stacked({.path = "model.layers.{layer}.mlp",
                                       .router = {.weight = "gate.weight"},
                                       .experts = separate_experts()}),
      .configure = configure_olmoe,
      .config = {{"num_experts", ModelSize::experts},
                 {"num_experts_per_tok", ModelSize::topk},
                 {"intermediate_size", ModelSize::ff},
                 {"norm_topk_prob", false}},
  };
}

}  // namespace waybill::families
