// Ernie 4.5. Softmax scores, a bias [1, E] that only selects, gates divided by their sum or by
// moe_norm_min where that is larger; shared experts kept as one FFN of their joint width.
#include "model/config_fields.h"
#include "model/expert_names.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

void configure_ernie4_5_moe(const ConfigFields& fields, ModelConfig& model) {
  model.experts = fields.experts({"moe_num_experts", "num_experts"});
  model.topk = fields.topk({"moe_k", "num_experts_per_tok"}, model.experts);
  model.ff = fields.width({"moe_intermediate_size"});
  model.shared_ff = model.ff * fields.integer({"moe_num_shared_experts"}, 0, 64, 2);
  model.moe_layers = layers_by_interval(fields, model.layers);
  fields.require_flag("use_bias", false);
  model.router.score = RouterScore::softmax_then_topk;
  model.router.renormalize = true;
  model.router.renormalize_floor = fields.number_from_zero("moe_norm_min", 1e-12F);
}

BlockLayout layout(std::string_view selection_bias, std::vector<ExpertTensor> experts) {
  return {.path = "model.layers.{layer}.mlp",
          .router = {.weight = "gate.weight",
                     .selection_bias = selection_bias,
                     .selection_bias_axes = {Axis::one, Axis::expert}},
          .experts = std::move(experts),
          .shared = shared_experts()};
}

}  // namespace

Family ernie4_5_moe() {
  return {
      .name = "ernie4_5_moe",
      .module = "model.layers.{layer}.mlp",
      .layouts = {layout("moe_statics.e_score_correction_bias", separate_experts()),
                  layout("gate.moe_statics.e_score_correction_bias", stacked_experts())},
      .configure = configure_ernie4_5_moe,
      .config = {{"moe_num_experts", ModelSize::experts},
                 {"moe_k", ModelSize::topk},
                 {"moe_intermediate_size", ModelSize::ff},
                 {"moe_num_shared_experts", 2},
                 {"moe_layer_start_index", 0},
                 {"moe_layer_interval", 1},
                 {"use_bias", false}},
  };
}

}  // namespace waybill::families
