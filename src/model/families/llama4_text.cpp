// Llama 4, its text model alone. A gate is the sigmoid of its logit and multiplies the expert's
// input; all experts of a layer in one tensor, [in, out], gate before up.
#include "model/config_fields.h"
#include "model/expert_names.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

void configure_llama4_text(const ConfigFields& fields, ModelConfig& model) {
  model.experts = fields.experts({"num_local_experts"});
  model.topk = fields.topk({"num_experts_per_tok"}, model.experts);
  model.ff = fields.width({"intermediate_size"});
  model.shared_ff = model.ff;
  model.moe_layers = layers_by_interleave(fields, model.layers);
  model.router.score = RouterScore::topk_then_sigmoid;
  model.scales_input = true;
}

}  // namespace

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
      .configure = configure_llama4_text,
      .config = {{"num_local_experts", ModelSize::experts},
                 {"num_experts_per_tok", ModelSize::topk},
                 {"intermediate_size", ModelSize::ff},
                 {"interleave_moe_layer_step", 1}},
  };
}

}  // namespace waybill::families
