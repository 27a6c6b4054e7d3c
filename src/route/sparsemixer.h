// The sparsemixer router at inference. Source: arXiv 2409.12136 and the Phi-3.5-MoE model of
// Hugging Face transformers.
#pragma once

#include <cstdint>
#include <span>

namespace waybill {

// Chooses experts one after another, each the largest logit [E] not yet chosen, ties to the lower
// id. Its gate is its softmax over the logits not yet chosen that are near it: RouterSpec says what
// near is. Chosen ids are distinct and in range also when logits are NaN. k <= E.
void sparsemixer(std::span<const float> logits, float jitter_epsilon,
                 std::span<std::int32_t> experts, std::span<float> gates);

}  // namespace waybill
