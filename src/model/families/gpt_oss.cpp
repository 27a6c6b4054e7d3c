// gpt-oss. All experts of a layer in one tensor, [in, out], gate and up in alternating columns,
// biases everywhere, a clamped SwiGLU; the softmax runs over the chosen logits.
#include "model/config_fields.h"
#include "model/families/families.h"

namespace waybill::families {

Family gpt_oss() {
  return {
      .name = "gpt_oss",
      .layouts =
          {{.router = {.weight = "router.weight", .bias = "router.bias"},
            .experts =
                {{Part::gate_up,
                  "experts.gate_up_proj",
                  {Axis::expert, Axis::hidden, Axis::gate_up_pairs}},
                 {Part::gate_up_bias,
                  "experts.gate_up_proj_bias",
                  {Axis::expert, Axis::gate_up_pairs}},
                 {Part::down, "experts.down_proj", {Axis::expert, Axis::ff, Axis::hidden}},
                 {Part::down_bias, "experts.down_proj_bias", {Axis::expert, Axis::hidden}}}}},
      .sizes = {.experts = {"num_local_experts", "num_experts"},
                .topk = {"num_experts_per_tok", "experts_per_token"}},
      .configure =
          [](const ConfigFields& fields, ModelConfig& model) {
            model.router.score = RouterScore::topk_then_softmax;
            model.activation.kind = ActivationKind::swiglu_clamped;
            model.activation.alpha = fields.number("swiglu_alpha", 1.702F);
            model.activation.limit = fields.number("swiglu_limit", 7.0F);
          },
  };
}

}  // namespace waybill::families
