// DeepSeek-V3. Sigmoid scores, a bias that only selects, group-limited choice, shared experts kept
// as one FFN of their joint width. Layers from num_hidden_layers on predict further tokens and
// belong to no block.
#include "model/block_layouts.h"
#include "model/config_fields.h"
#include "model/deepseek_family.h"
#include "model/families/families.h"

namespace waybill::families {

Family deepseek_v3() {
  return {
      .name = "deepseek_v3",
      .layouts = deepseek_v3_layouts(),
      .sizes = deepseek_sizes(),
      .configure =
          [](const ConfigFields& fields, ModelConfig& model) {
            read_deepseek_layers(fields, model);
            fields.require_text("scoring_func", "sigmoid");
            fields.require_text("topk_method", "noaux_tc");
            read_sigmoid_router(fields, model,
                                {.renormalize = true, .scale = 2.5F, .groups = std::nullopt});
          },
      .config = {{"n_shared_experts", 1},
                 {"first_k_dense_replace", 0},
                 {"n_group", 1},
                 {"topk_group", 1},
                 {"norm_topk_prob", true},
                 {"scoring_func", "sigmoid"},
                 {"topk_method", "noaux_tc"}},
  };
}

}  // namespace waybill::families
