// Phi-3.5-MoE. The sparsemixer router, which chooses two experts; w1 is gate, w3 up, w2 down.
#include "model/block_layouts.h"
#include "model/config_fields.h"
#include "model/families/families.h"

namespace waybill::families {

Family phimoe() {
  return {
      .name = "phimoe",
      .layouts = mixtral_or_stacked({}, {.weight = "router.weight"}),
      .sizes = {.experts = {"num_local_experts"}},
      .configure =
          [](const ConfigFields& fields, ModelConfig& model) {
            if (model.topk != 2) {
              throw fields.error(Code::InvalidValue, "num_experts_per_tok")
                  .expected("2, the choices of sparsemixer")
                  .found(model.topk);
            }
            model.router.score = RouterScore::sparsemixer;
            model.router.jitter_epsilon = fields.number_from_zero("router_jitter_noise", 0.01F);
          },
  };
}

}  // namespace waybill::families
