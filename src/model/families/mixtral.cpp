// Mixtral. w1 is gate, w3 up, w2 down; the chosen probabilities always sum to one.
#include "model/block_layouts.h"
#include "model/families/families.h"

namespace waybill::families {

Family mixtral() {
  return {
      .name = "mixtral",
      .layouts = mixtral_or_stacked(),
      .sizes = {.experts = {"num_local_experts", "num_experts"}},
      .configure = [](const ConfigFields&, ModelConfig& model) { model.router.renormalize = true; },
  };
}

}  // namespace waybill::families
