// OLMoE. Every layer holds experts; gates are not renormalised unless the config says so.
#include "model/config_fields.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

void configure(const ConfigFields& fields, ModelConfig& model) {
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
      .stored = "model.layers.{layer}.mlp",
      .router = {.weight = "gate.weight"},
      .experts = {{Part::gate, "experts.{expert}.gate_proj.weight", {Axis::ff, Axis::hidden}},
                  {Part::up, "experts.{expert}.up_proj.weight", {Axis::ff, Axis::hidden}},
                  {Part::down, "experts.{expert}.down_proj.weight", {Axis::hidden, Axis::ff}}},
      .configure = configure,
  };
}

}  // namespace waybill::families
