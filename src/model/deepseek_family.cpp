#include "model/deepseek_family.h"

#include <fmt/format.h>

#include "model/block_layouts.h"
#include "model/config_fields.h"
#include "model/moe_layers.h"

namespace waybill {

SizeFields deepseek_sizes() {
  return {.experts = {"n_routed_experts", "num_local_experts", "num_experts"},
          .ff = "moe_intermediate_size"};
}

std::vector<BlockLayout> deepseek_v3_layouts() {
  return published_or_stacked({.router = {.selection_bias = "gate.e_score_correction_bias"},
                               .experts = separate_experts(),
                               .shared = shared_experts()});
}

void read_deepseek_layers(const ConfigFields& fields, ModelConfig& model,
                          std::optional<std::int32_t> dense_layers) {
  model.shared_ff = model.ff * fields.integer({"n_shared_experts"}, 0, 64);
  model.moe_layers = layers_after_dense(fields, model.layers, dense_layers);
}

void read_expert_groups(const ConfigFields& fields, ModelConfig& model,
                        std::optional<std::int32_t> otherwise) {
  RouterSpec& router = model.router;
  router.groups = fields.integer({"n_group"}, 1, model.experts, otherwise);
  router.topk_groups = fields.integer({"topk_group"}, 1, router.groups, otherwise);
  const std::int32_t group_size = model.experts / router.groups;
  const std::int32_t smallest = router.group_score == GroupScore::two_best ? 2 : 1;
  if (group_size * router.groups != model.experts || (router.groups > 1 && group_size < smallest)) {
    throw fields.error(Code::InvalidValue, "n_group")
        .expected(fmt::format("equal groups of at least {} of {} experts", smallest, model.experts))
        .found(router.groups);
  }
  if (group_size * router.topk_groups < model.topk) {
    throw fields.error(Code::InvalidValue, "topk_group")
        .expected(fmt::format("groups of {} that hold {} experts", group_size, model.topk))
        .found(router.topk_groups);
  }
}

void read_sigmoid_router(const ConfigFields& fields, ModelConfig& model,
                         const SigmoidRouterDefaults& otherwise) {
  model.router.score = RouterScore::sigmoid;
  model.router.renormalize = fields.flag("norm_topk_prob", otherwise.renormalize);
  model.router.renormalize_epsilon = 1e-20F;
  model.router.scale = fields.number("routed_scaling_factor", otherwise.scale);
  read_expert_groups(fields, model, otherwise.groups);
}

}  // namespace waybill
