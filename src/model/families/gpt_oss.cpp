// gpt-oss. All experts of a layer in one tensor, [in, out], gate and up in alternating columns,
// biases everywhere, a clamped SwiGLU; the softmax runs over the chosen logits.
#include "model/config_fields.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

void configure_gpt_oss(const ConfigFields& fields, ModelConfig& model) {
  model.experts = fields.experts({"num_local_experts", "num_experts"});
  model.topk = fields.topk({"num_experts_per_tok", "experts_per_token"}, model.experts);
  model.ff = fields.width({"intermediate_size"});
  model.moe_layers = every_layer(model.layers);
  model.router.score = RouterScore::topk_then_softmax;
  model.activation.kind = ActivationKind::swiglu_clamped;
  model.activation.alpha = fields.number("swiglu_alpha", 1.702F);
  model.activation.limit = fields.number("swiglu_limit", 7.0F);
}

}  // namespace

Family gpt_oss() {
  return {
      .name = "gpt_oss",
      .module = "model.layers.{layer}.mlp",
      .layouts =
          {{.path = "model.layers.{layer}.mlp",
            .router = {.weight = "router.weight", .bias = "router.bias"},
            .experts =
                {{Part::gate_up,
                  "experts.gate_up_proj",
                  {Axis::expert, Axis::hidden, Axis::gate_up_pairs}},
                 {Part::gate_up_bias,
                  "experts.gate_up_proj_bias",
                  {Axis::expert, Axis::gate_up_pairs}},
                 {Part::down, "experts.down_proj", {Axis::expert, Axis::ff, Axis::hidden}},
                 {Part::down_bias, "experts.down_proj_bias", {Axis::expert, Axis::hidden}}}}},
      .configure = configure_gpt_oss,
      .config = {{"num_local_experts", ModelSize::experts},
                 {"num_experts_per_tok", ModelSize::topk},
                 {"intermediate_size", ModelSize::ff}},
  };
}

}  // namespace waybill::families
