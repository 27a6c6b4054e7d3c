// Mixtral. w1 is gate, w3 up, w2 down; the chosen probabilities always sum to one.
#include "model/config_fields.h"
#include "model/expert_names.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

void configure_mixtral(const ConfigFields& fields, ModelConfig& model) {
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
      .layouts = {{.path = "model.layers.{layer}.block_sparse_moe",
                   .router = {.weight = "gate.weight"},
                   .experts = numbered_experts()},
                  {.path = "model.layers.{layer}.mlp",
                   .router = {.weight = "gate.weight"},
                   .experts = stacked_experts()}},
      .configure = configure_mixtral,
      .config = {{"num_local_experts", ModelSize::experts},
                 {"num_experts_per_tok", ModelSize::topk},
                 {"intermediate_size", ModelSize::ff}},
  };
}

}  // namespace waybill::families
