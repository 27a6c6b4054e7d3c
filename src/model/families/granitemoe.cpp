// Granite MoE. All experts of a layer in one tensor, gate before up; the softmax runs over the
// chosen logits.
#include "model/config_fields.h"
#include "model/expert_names.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

void configure_granitemoe(const ConfigFields& fields, ModelConfig& model) {
  model.experts = fields.experts({"num_local_experts"});
  model.topk = fields.topk({"num_experts_per_tok"}, model.experts);
  model.ff = fields.width({"intermediate_size"});
  model.moe_layers = every_layer(model.layers);
  model.router.score = RouterScore::topk_then_softmax;
}

}  // namespace

Family granitemoe() {
  return {
      .name = "granitemoe",
      .module = "model.layers.{layer}.block_sparse_moe",
      .layouts = {{.path = "model.layers.{layer}.block_sparse_moe",
                   .router = {.weight = "router.layer.weight"},
                   .experts = {{Part::gate_up,
                                "input_linear.weight",
                                {Axis::expert, Axis::gate_then_up, Axis::hidden}},
                               {Part::down,
                                "output_linear.weight",
                                {Axis::expert, Axis::hidden, Axis::ff}}}},
                  {.path = "model.layers.{layer}.block_sparse_moe",
                   .router = {.weight = "router.weight"},
                   .experts = stacked_experts()}},
      .configure = configure_granitemoe,
      .config = {{"num_local_experts", ModelSize::experts},
                 {"num_experts_per_tok", ModelSize::topk},
                 {"intermediate_size", ModelSize::ff}},
  };
}

}  // namespace waybill::families
