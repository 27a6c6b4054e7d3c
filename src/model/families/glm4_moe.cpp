// GLM-4.5 and 4.6. DeepSeek-V3's router and shared experts. Layers from num_hidden_layers on
// predict further tokens and belong to no block.
#include "model/block_layouts.h"
#include "model/config_fields.h"
#include "model/deepseek_family.h"
#include "model/families/families.h"

namespace waybill::families {

Family glm4_moe() {
  return {
      .name = "glm4_moe",
      .layouts = deepseek_v3_layouts(),
      .sizes = deepseek_sizes(),
      .configure =
          [](const ConfigFields& fields, ModelConfig& model) {
            read_deepseek_layers(fields, model, 1);
            fields.require_text("scoring_func", "sigmoid");
            read_sigmoid_router(fields, model, {.renormalize = true, .scale = 1.0F, .groups = 1});
          },
      .config = {{"n_shared_experts", 1},
                 {"first_k_dense_replace", 0},
                 {"n_group", 1},
                 {"topk_group", 1},
                 {"norm_topk_prob", true}},
  };
}

}  // namespace waybill::families
