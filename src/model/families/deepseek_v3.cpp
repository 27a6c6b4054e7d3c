// DeepSeek-V3. Sigmoid scores, a bias that only selects, group-limited choice, shared experts kept
// as one FFN of their joint width. Layers from num_hidden_layers on predict further tokens and
// belong to no block.
#include <fmt/format.h>

#include "model/config_fields.h"
#include "model/families/families.h"
#include "model/moe_layers.h"

namespace waybill::families {
namespace {

// The choice is limited to topk_group of n_group equal groups, ranked by their two best experts.
void read_groups(const ConfigFields& fields, ModelConfig& model) {
  RouterSpec& router = model.router;
  router.groups = fields.integer({"n_group"}, 1, model.experts);
  router.topk_groups = fields.integer({"topk_group"}, 1, router.groups);
  const std::int32_t group_size = model.experts / router.groups;
  if (group_size * router.groups != model.experts || (router.groups > 1 && group_size < 2)) {
    throw fields.error(Code::InvalidValue, "n_group")
        .expected(fmt::format("equal groups of at least 2 of {} experts", model.experts))
        .found(router.groups);
  }
  if (group_size * router.topk_groups < model.topk) {
    throw fields.error(Code::InvalidValue, "topk_group")
        .expected(fmt::format("groups of {} that hold {} experts", group_size, model.topk))
        .found(router.topk_groups);
  }
}

void configure(const ConfigFields& fields, ModelConfig& model) {
  model.experts = fields.experts({"n_routed_experts", "num_local_experts"});
  model.topk = fields.topk({"num_experts_per_tok"}, model.experts);
  model.ff = fields.width({"moe_intermediate_size"});
  model.shared_ff = model.ff * fields.integer({"n_shared_experts"}, 0, 64);
  model.moe_layers = layers_after_dense(fields, model.layers);

  fields.require_text("scoring_func", "sigmoid");
  fields.require_text("topk_method", "noaux_tc");
  model.router.score = RouterScore::sigmoid;
  model.router.renormalize = fields.flag("norm_topk_prob", true);
  model.router.renormalize_epsilon = 1e-20F;
  model.router.scale = fields.number("routed_scaling_factor", 2.5F);
  read_groups(fields, model);
}

}  // namespace

Family deepseek_v3() {
  return {
      .name = "deepseek_v3",
      .module = "model.layers.{layer}.mlp",
      .stored = "model.layers.{layer}.mlp",
      .router = {.weight = "gate.weight", .selection_bias = "gate.e_score_correction_bias"},
      .experts = {{Part::gate, "experts.{expert}.gate_proj.weight", {Axis::ff, Axis::hidden}},
                  {Part::up, "experts.{expert}.up_proj.weight", {Axis::ff, Axis::hidden}},
                  {Part::down, "experts.{expert}.down_proj.weight", {Axis::hidden, Axis::ff}}},
      .shared = {{Part::gate, "shared_experts.gate_proj.weight", {Axis::ff, Axis::hidden}},
                 {Part::up, "shared_experts.up_proj.weight", {Axis::ff, Axis::hidden}},
                 {Part::down, "shared_experts.down_proj.weight", {Axis::hidden, Axis::ff}}},
      .configure = configure,
  };
}

}  // namespace waybill::families
