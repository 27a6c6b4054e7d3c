// MiniMax-M2. Sigmoid scores, a bias of the block that only selects, gates always renormalised;
// w1 is gate, w3 up, w2 down.
#include "model/config_fields.h"
#include "model/expert_names.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

void configure_minimax_m2(const ConfigFields& fields, ModelConfig& model) {
  model.experts = fields.experts({"num_local_experts", "num_experts"});
  model.topk = fields.topk({"num_experts_per_tok"}, model.experts);
  model.ff = fields.width({"intermediate_size"});
  model.moe_layers = every_layer(model.layers);
  fields.require_text("scoring_func", "sigmoid");
  fields.require_flag("use_routing_bias", true);
  model.router.score = RouterScore::sigmoid;
  model.router.renormalize = true;
}

}  // namespace

Family minimax_m2() {
  return {
      .name = "minimax_m2",
      .module = "model.layers.{layer}.mlp",
      .layouts = {{.path = "model.layers.{layer}.block_sparse_moe",
                   .router = {.weight = "gate.weight", .selection_bias = "e_score_correction_bias"},
                   .experts = numbered_experts()},
                  {.path = "model.layers.{layer}.mlp",
                   .router = {.weight = "gate.weight", .selection_bias = "e_score_correction_bias"},
                   .experts = stacked_experts()}},
      .configure = configure_minimax_m2,
      .config = {{"num_local_experts", ModelSize::experts},
                 {"num_experts_per_tok", ModelSize::topk},
                 {"intermediate_size", ModelSize::ff},
                 {"scoring_func", "sigmoid"},
                 {"use_routing_bias", true}},
  };
}

}  // namespace waybill::families
