// dots.llm1. DeepSeek-V3's router and shared experts; gates are renormalised only when the config
// says so. Its published config calls the score by another name than sigmoid, so that field isn't
// read.
#include "model/config_fields.h"
#include "model/deepseek_config.h"
#include "model/expert_names.h"
#include "model/families/families.h"

namespace waybill::families {
namespace {

void configure_dots1(const ConfigFields& fields, ModelConfig& model) {
  read_deepseek_sizes(fields, model, 0);
  read_sigmoid_router(fields, model, {.renormalize = false, .scale = 1.0F, .groups = 1});
}

}  // namespace

Family dots1() {
  return {
      .name = "dots1",
      .module = "model.layers.{layer}.mlp",
      .layouts = published_or_stacked(
          {.path = "model.layers.{layer}.mlp",
           .router = {.weight = "gate.weight", .selection_bias = "gate.e_score_correction_bias"},
           .experts = separate_experts(),
           .shared = shared_experts()}),
      .configure = configure_dots1,
      .config = {{"n_routed_experts", ModelSize::experts},
                 {"num_experts_per_tok", ModelSize::topk},
                 {"moe_intermediate_size", ModelSize::ff},
                 {"n_shared_experts", 2},
                 {"first_k_dense_replace", 0},
                 {"norm_topk_prob", true}},
  };
}

}  // namespace waybill::families
