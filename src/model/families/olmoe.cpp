// OLMoE. Every layer holds experts; gates are not renormalised unless the config says so.
#include "model/block_layouts.h"
#include "model/config_fields.h"
#include "model/families/families.h"

namespace waybill::families {

Family olmoe() {
  return {
      .name = "olmoe",
      .layouts = published_or_stacked({.experts = separate_experts()}),
      .configure =
          [](const ConfigFields& fields, ModelConfig& model) {
            model.router.renormalize = fields.flag("norm_topk_prob", false);
          },
      .config = {{"norm_topk_prob", false}},
  };
}

}  // namespace waybill::families
