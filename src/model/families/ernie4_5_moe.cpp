// Ernie 4.5. Softmax scores, a bias [1, E] that only selects, gates divided by their sum or by
// moe_norm_min where that is larger; shared experts kept as one FFN of their joint width.
#include "model/block_layouts.h"
#include "model/config_fields.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

BlockLayout ernie_layout(std::string_view selection_bias, std::vector<ExpertTensor> experts) {
  return {.router = {.selection_bias = selection_bias,
                     .selection_bias_axes = {Axis::one, Axis::expert}},
          .experts = std::move(experts),
          .shared = shared_experts()};
}

}  // namespace

Family ernie4_5_moe() {
  return {
      .name = "ernie4_5_moe",
      .layouts = {ernie_layout("moe_statics.e_score_correction_bias", separate_experts()),
                  ernie_layout("gate.moe_statics.e_score_correction_bias", stacked_experts())},
      .sizes = {.experts = {"moe_num_experts", "num_experts"},
                .topk = {"moe_k", "num_experts_per_tok"},
                .ff = "moe_intermediate_size"},
      .configure =
          [](const ConfigFields& fields, ModelConfig& model) {
            model.shared_ff = model.ff * fields.integer({"moe_num_shared_experts"}, 0, 64, 2);
            model.moe_layers = layers_by_interval(fields, model.layers);
            fields.require_flag("use_bias", false);
            model.router.renormalize = true;
            model.router.renormalize_floor = fields.number_from_zero("moe_norm_min", 1e-12F);
          },
      .config = {{"moe_num_shared_experts", 2},
                 {"moe_layer_start_index", 0},
                 {"moe_layer_interval", 1},
                 {"use_bias", false}},
  };
}

}  // namespace waybill::families
