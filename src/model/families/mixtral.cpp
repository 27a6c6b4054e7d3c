// Mixtral. w1 is gate, w3 up, w2 down; the chosen probabilities always sum to one.
#include "model/config_fields.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

void configure(const ConfigFields& fields, ModelConfig& model) {
  model.experts = fields.experts({"num_local_experts", "num_experts"});
  model.topk = fields.topk({"num_experts_per_tok"}, model.experts);
  model.ff = fields.width({"intermediate_size"});
  model.moe_layers = every_layer(model.layers);
  model.router.score = RouterScore::softmax_then_topk;
  model.router.renormalize = true;
}

}  // namespace

Family mixtral() {
  return {
      .name = "mixtral",
      .module = "model.layers.{layer}.mlp",
      .stored = "model.layers.{layer}.block_sparse_moe",
      .router = {.weight = "gate.weight"},
      .experts = {{Part::gate, "experts.{expert}.w1.weight", {Axis::ff, Axis::hidden}},
                  {Part::up, "experts.{expert}.w3.weight", {Axis::ff, Axis::hidden}},
                  {Part::down, "experts.{expert}.w2.weight", {Axis::hidden, Axis::ff}}},
      .configure = configure,
  };
}

}  // namespace waybill::families
