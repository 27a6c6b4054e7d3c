// What DeepSeek's models and those that follow them have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/family.h"
#include "waybill/checkpoint.h"

namespace waybill {

class ConfigFields;

SizeFields deepseek_sizes();
// DeepSeek-V3's block: a bias that only selects, and shared experts.
std::vector<BlockLayout> deepseek_v3_layouts();

// Layers with experts, and shared experts as one FFN of their joint width. `dense_layers`: for an
// absent first_k_dense_replace.
void read_deepseek_layers(const ConfigFields& fields, ModelConfig& model,
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
