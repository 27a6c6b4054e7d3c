// What the config.json of DeepSeek's models and of those that follow them says.
#pragma once

#include <cstdint>
#include <optional>

#include "waybill/checkpoint.h"

namespace waybill {

class ConfigFields;

// Experts, choices and widths; shared experts are one FFN of their joint width. `dense_layers`: for
// an absent first_k_dense_replace.
void read_deepseek_sizes(const ConfigFields& fields, ModelConfig& model,
                         std::optional<std::int32_t> dense_layers = std::nullopt);
// The choice is limited to topk_group of n_group equal groups. `otherwise` stands for absent
// fields.
void read_expert_groups(const ConfigFields& fields, ModelConfig& model,
                        std::optional<std::int32_t> otherwise = std::nullopt);

// DeepSeek-V3's router: sigmoid scores, a bias that only selects, groups by their two best experts.
struct SigmoidRouterDefaults {
  bool renormalize = true;
  float scale = 1.0F;
  std::optional<std::int32_t> groups = 1;
};
void read_sigmoid_router(const ConfigFields& fields, ModelConfig& model,
                         const SigmoidRouterDefaults& otherwise);

}  // namespace waybill
