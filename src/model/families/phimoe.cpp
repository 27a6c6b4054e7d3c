// Phi-3.5-MoE. The sparsemixer router, which chooses two experts; w1 is gate, w3 up, w2 down.
#include "model/config_fields.h"
#include "model/expert_names.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

void configure_phimoe(const ConfigFields& fields, ModelConfig& model) {
  model.experts = fields.experts({"num_local_experts"});
  model.topk = fields.topk({"num_experts_per_tok"}, model.experts);
  if (model.topk != 2) {
    throw fields.error(Code::InvalidValue, "num_experts_per_tok")
        .expected("2, the choices of sparsemixer")
        .found(model.topk);
  }
  model.ff = fields.width({"intermediate_size"});
  model.moe_layers = every_layer(model.layers);
  model.router.score = RouterScore::sparsemixer;
  model.router.jitter_epsilon = fields.number_from_zero("router_jitter_noise", 0.01F);
}

}  // namespace

Family phimoe() {
  return {
      .name = "phimoe",
      .module = "model.layers.{layer}.mlp",
      .layouts = {{.path = "model.layers.{layer}.block_sparse_moe",
                   .router = {.weight = "gate.weight"},
                   .experts = numbered_experts()},
                  {.path = "model.layers.{layer}.mlp",
                   .router = {.weight = "router.weight"},
                   .experts = stacked_experts()}},
      .configure = configure_phimoe,
      .config = {{"num_local_experts", ModelSize::experts},
                 {"num_experts_per_tok", ModelSize::topk},
                 {"intermediate_size", ModelSize::ff}},
  };
}

}  // namespace waybill::families
