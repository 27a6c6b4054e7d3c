// Granite MoE. All experts of a layer in one tensor, gate before up; the softmax runs over the
// chosen logits.
#include "model/block_layouts.h"
#include "model/families/families.h"

namespace waybill::families {

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
      .sizes = {.experts = {"num_local_experts"}},
      .configure = [](const ConfigFields&,
                      ModelConfig& model) { model.router.score = RouterScore::topk_then_softmax; },
  };
}

}  // namespace waybill::families
