// Routers of the model families: hidden rows → top-k experts and gates. FP32 on the original rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "waybill/routes.h"
#include "waybill/tensor.h"

namespace waybill {

enum class RouterScore : std::uint8_t {
  softmax_then_topk,  // softmax over all experts, gates are the chosen probabilities
  topk_then_softmax,  // softmax over the chosen logits
  sigmoid,            // element-wise
  topk_then_sigmoid,  // sigmoid of the chosen logits (Llama 4)
  sparsemixer,        // each choice is the largest logit left, its gate a softmax over those left
                      // that come near it (Phi-3.5-MoE; arXiv 2409.12136, at inference)
};

// By what a group of experts is ranked: selection scores of its experts.
enum class GroupScore : std::uint8_t {
  two_best,  // their sum (DeepSeek-V3)
  best,      // (DeepSeek-V2)
};

// A router as a row of facts; families fill it in.
struct RouterSpec {
  RouterScore score = RouterScore::softmax_then_topk;
  std::int32_t experts = 0;
  std::int32_t topk = 0;
  bool renormalize = false;       // gates of a token divided by their sum
  float renormalize_epsilon = 0;  // added to that sum
  float scale = 1.0F;             // multiplies the gates last
  std::int32_t groups = 1;        // experts form this many equal runs …
  std::int32_t topk_groups = 1;   // … of which a token keeps this many, the best by …
  GroupScore group_score = GroupScore::two_best;  // … this
  float renormalize_floor = 0;                    // the sum is taken to be at least this
  float jitter_epsilon = 0;  // sparsemixer: a logit x is near the largest m when
                             // (m - x) / max(|x|, m) <= 2 * jitter_epsilon
};

// A router with its weights; owns nothing.
struct Router {
  RouterSpec spec;
  TensorView weight;          // [E, d], f32 or bf16 or f16
  TensorView bias;            // [E], optional: added to the logits
  TensorView selection_bias;  // [E], optional: added to scores for selection, never to a gate
};

// Result rows are in the order of selection: descending selection score, ties to the lower id.
struct RoutingResult {
  std::int32_t topk = 0;
  std::vector<std::int32_t> experts;  // [T, k]
  std::vector<float> gates;           // [T, k]
};

// Throws TopKExceedsExperts (k over the experts of the kept groups), InvalidValue (also groups or a
// selection bias with sparsemixer), ShapeMismatch, DtypeMismatch, DeviceUnavailable (fields named).
// One ascending FP32 chain per logit, so a row's result doesn't depend on its neighbours. A NaN
// among a row's logits makes all its gates NaN, which Routes refuses; its ids stay in range.
// `hidden`: [T, d] contiguous f32, bf16 or f16. All tensors are host memory, at any alignment.
RoutingResult route(const Router& router, const TensorView& hidden);

}  // namespace waybill
