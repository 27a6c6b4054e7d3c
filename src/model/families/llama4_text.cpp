// Llama 4, its text model alone. A gate is the sigmoid of its logit and multiplies the expert's
// input; all experts of a layer in one tensor, [in, out], gate before up.
#include "model/block_layouts.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {

Family llama4_text() {
  return {
      .name = "llama4_text",
      .module = "model.layers.{layer}.feed_forward",
      .layouts =
          {{.path = "model.layers.{layer}.feed_forward",
            .router = {.weight = "router.weight"},
            .experts = {{Part::gate_up,
                         "experts.gate_up_proj",
                         {Axis::expert, Axis::hidden, Axis::gate_then_up}},
                        {Part::down, "experts.down_proj", {Axis::expert, Axis::ff, Axis::hidden}}},
            .shared = shared_expert()}},
      .sizes = {.experts = {"num_local_experts"}},
      .configure =
          [](const ConfigFields& fields, ModelConfig& model) {
            model.shared_ff = model.ff;
            model.moe_layers = layers_by_interleave(fields, model.layers);
            model.router.score = RouterScore::topk_then_sigmoid;
            model.scales_input = true;
          },
      .config = {{"interleave_moe_layer_step", 1}},
  };
}

}  // namespace waybill::families
