// MiniMax-M2. Sigmoid scores, a bias of the block that only selects, gates always renormalised;
// w1 is gate, w3 up, w2 down.
#include "model/block_layouts.h"
#include "model/config_fields.h"
#include "model/families/families.h"

namespace waybill::families {

Family minimax_m2() {
  return {
      .name = "minimax_m2",
      .layouts = mixtral_or_stacked({.selection_bias = "e_score_correction_bias"},
                                    {.selection_bias = "e_score_correction_bias"}),
      .sizes = {.experts = {"num_local_experts", "num_experts"}},
      .configure =
          [](const ConfigFields& fields, ModelConfig& model) {
            fields.require_text("scoring_func", "sigmoid");
            fields.require_flag("use_routing_bias", true);
            model.router.score = RouterScore::sigmoid;
            model.router.renormalize = true;
          },
      .config = {{"scoring_func", "sigmoid"}, {"use_routing_bias", true}},
  };
}

}  // namespace waybill::families
