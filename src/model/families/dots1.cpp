// dots.llm1. DeepSeek-V3's router and shared experts; gates are renormalised only when the config
// says so. Its published config calls the score by another name than sigmoid, so that field isn't
// read.
#include "model/block_layouts.h"
#include "model/deepseek_family.h"
#include "model/families/families.h"

namespace waybill::families {

Family dots1() {
  return {
      .name = "dots1",
      .layouts = deepseek_v3_layouts(),
      .sizes = deepseek_sizes(),
      .configure =
          [](const ConfigFields& fields, ModelConfig& model) {
            read_deepseek_layers(fields, model, 0);
            read_sigmoid_router(fields, model, {.renormalize = false, .scale = 1.0F, .groups = 1});
          },
      .config = {{"n_shared_experts", 2}, {"first_k_dense_replace", 0}, {"norm_topk_prob", true}},
  };
}

}  // namespace waybill::families
