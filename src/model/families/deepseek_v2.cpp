// DeepSeek-V2. Softmax scores, chosen greedily among all experts or among those of the groups with
// the best single expert; scaled and never renormalised, whatever norm_topk_prob says, as the
// library does.
#include "model/block_layouts.h"
#include "model/config_fields.h"
#include "model/deepseek_family.h"
#include "model/families/families.h"

namespace waybill::families {
namespace {

void read_choice(const ConfigFields& fields, ModelConfig& model) {
  const std::string_view method =
      fields.find("topk_method") ? fields.text("topk_method") : std::string_view("greedy");
  if (method == "greedy") return;
  if (method != "group_limited_greedy") {
    throw fields.error(Code::InvalidValue, "topk_method")
        .expected("greedy or group_limited_greedy")
        .found(method);
  }
  model.router.group_score = GroupScore::best;
  read_expert_groups(fields, model);
}

}  // namespace

Family deepseek_v2() {
  return {
      .name = "deepseek_v2",
      .layouts = published_or_stacked({.experts = separate_experts(), .shared = shared_experts()}),
      .sizes = deepseek_sizes(),
      .configure =
          [](const ConfigFields& fields, ModelConfig& model) {
            read_deepseek_layers(fields, model, 0);
            fields.require_text("scoring_func", "softmax");
            fields.require_flag("mlp_bias", false);
            model.router.scale = fields.number("routed_scaling_factor", 1.0F);
            read_choice(fields, model);
          },
      .config = {{"n_shared_experts", 2}, {"first_k_dense_replace", 0}, {"topk_method", "greedy"}},
  };
}

}  // namespace waybill::families
