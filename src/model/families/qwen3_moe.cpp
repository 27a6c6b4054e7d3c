// Qwen3-MoE. Dense layers stand between MoE layers by step or by list.
#include "model/config_fields.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

void configure(const ConfigFields& fields, ModelConfig& model) {
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
      .stored = "model.layers.{layer}.mlp",
      .router = {.weight = "gate.weight"},
      .experts = {{Part::gate, "experts.{expert}.gate_proj.weight", {Axis::ff, Axis::hidden}},
                  {Part::up, "experts.{expert}.up_proj.weight", {Axis::ff, Axis::hidden}},
                  {Part::down, "experts.{expert}.down_proj.weight", {Axis::hidden, Axis::ff}}},
      .configure = configure,
  };
}

}  // namespace waybill::families
