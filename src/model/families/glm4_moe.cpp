// GLM-4.5 and 4.6. DeepSeek-V3's router and shared experts. Layers from num_hidden_layers on
// predict further tokens and belong to no block.
#include "model/config_fields.h"
#include "model/deepseek_config.h"
#include "model/expert_names.h"
#include "model/families/families.h"

namespace waybill::families {
namespace {

void configure_glm4_moe(const ConfigFields& fields, ModelConfig& model) {
  read_deepseek_sizes(fields, model, 1);
  fields.require_text("scoring_func", "sigmoid");
  read_sigmoid_router(fields, model, {.renormalize = true, .scale = 1.0F, .groups = 1});
}

}  // namespace

Family glm4_moe() {
  return {
      .name = "glm4_moe",
      .module = "model.layers.{layer}.mlp",
      .layouts = published_or_stacked(
          {.path = "model.layers.{layer}.mlp",
           .router = {.weight = "gate.weight", .selection_bias = "gate.e_score_correction_bias"},
           .experts = separate_experts(),
           .shared = shared_experts()}),
      .configure = configure_glm4_moe,
      .config = {{"n_routed_experts", ModelSize::experts},
                 {"num_experts_per_tok", ModelSize::topk},
                 {"moe_intermediate_size", ModelSize::ff},
                 {"n_shared_experts", 1},
                 {"first_k_dense_replace", 0},
                 {"n_group", 1},
                 {"topk_group", 1},
                 {"norm_topk_prob", true}},
  };
}

}  // namespace waybill::families
