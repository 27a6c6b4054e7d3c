// DeepSeek-V3. Sigmoid scores, a bias that only selects, group-limited choice, shared experts kept
// as one FFN of their joint width. Layers from num_hidden_layers on predict further tokens and
// belong to no block.
#include "model/config_fields.h"
#include "model/deepseek_config.h"
#include "model/expert_names.h"
#include "model/families/families.h"

namespace waybill::families {
namespace {

void configure_deepseek_v3(const ConfigFields& fields, ModelConfig& model) {
  read_deepseek_sizes(fields, model);
  fields.require_text("scoring_func", "sigmoid");
  fields.require_text("topk_method", "noaux_tc");
  read_sigmoid_router(fields, model, {.renormalize = true, .scale = 2.5F, .groups = std::nullopt});
}

}  // namespace

Family deepseek_v3() {
  return {
      .name = "deepseek_v3",
      .module = "model.layers.{layer}.mlp",
      .layouts = published_or_stacked(
          {.path = "model.layers.{layer}.mlp",
           .router = {.weight = "gate.weight", .selection_bias = "gate.e_score_correction_bias"},
           .experts = separate_experts(),
           .shared = shared_experts()}),
      .configure = configure_deepseek_v3,
      .config = {{"n_routed_experts", ModelSize::experts},
                 {"num_experts_per_tok", ModelSize::topk},
                 {"moe_intermediate_size", ModelSize::ff},
                 {"n_shared_experts", 1},
                 {"first_k_dense_replace", 0},
                 {"n_group", 1},
                 {"topk_group", 1},
                 {"norm_topk_prob", true},
                 {"scoring_func", "sigmoid"},
                 {"topk_method", "noaux_tc"}},
  };
}

}  // namespace waybill::families
