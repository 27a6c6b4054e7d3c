// The routers of the families against what Hugging Face transformers recorded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "io/safetensors.h"
#include "support/recording.h"
#include "waybill/router.h"

namespace waybill {
namespace {

using testing::checkpoint_directory;
using testing::Recording;

struct RecordedRouter {
  const char* family;
  const char* block;
  const char* weight;
  RouterSpec spec;
  // torch.topk(sorted=False) leaves the order of a token's experts open.
  bool recorded_order_is_open = false;
  const char* bias = nullptr;
  const char* selection_bias = nullptr;
};

constexpr RouterSpec mixtral{.experts = 8, .topk = 2, .renormalize = true};
constexpr RouterSpec qwen3{.experts = 16, .topk = 4, .renormalize = true};
constexpr RouterSpec olmoe{.experts = 16, .topk = 8};
constexpr RouterSpec deepseek{.score = RouterScore::sigmoid,
                              .experts = 16,
                              .topk = 4,
                              .renormalize = true,
                              .renormalize_epsilon = 1e-20F,
                              .scale = 2.5F,
                              .groups = 4,
                              .topk_groups = 2};
constexpr RouterSpec gpt_oss{.score = RouterScore::topk_then_softmax, .experts = 8, .topk = 4};
constexpr RouterSpec deepseek_v2{.experts = 12,
                                 .topk = 3,
                                 .scale = 1.6F,
                                 .groups = 4,
                                 .topk_groups = 2,
                                 .group_score = GroupScore::best};
constexpr RouterSpec deepseek_v2_greedy{.experts = 10, .topk = 4};
constexpr RouterSpec dots1{.score = RouterScore::sigmoid,
                           .experts = 12,
                           .topk = 4,
                           .scale = 2.5F,
                           .groups = 2,
                           .topk_groups = 1};
constexpr RouterSpec ernie{
    .experts = 12, .topk = 4, .renormalize = true, .renormalize_floor = 1e-12F};
constexpr RouterSpec glm4{.score = RouterScore::sigmoid,
                          .experts = 12,
                          .topk = 4,
                          .renormalize = true,
                          .renormalize_epsilon = 1e-20F,
                          .scale = 1.5F,
                          .groups = 3,
                          .topk_groups = 2};
constexpr RouterSpec granite{.score = RouterScore::topk_then_softmax, .experts = 10, .topk = 3};
constexpr RouterSpec minimax{
    .score = RouterScore::sigmoid, .experts = 12, .topk = 4, .renormalize = true};
constexpr RouterSpec phimoe{
    .score = RouterScore::sparsemixer, .experts = 8, .topk = 2, .jitter_epsilon = 0.15F};
constexpr RouterSpec qwen2{.experts = 12, .topk = 4};

const RecordedRouter recorded[] = {
    {"mixtral", "model.layers.0.mlp", "model.layers.0.block_sparse_moe.gate.weight", mixtral},
    {"mixtral", "model.layers.1.mlp", "model.layers.1.block_sparse_moe.gate.weight", mixtral},
    {"qwen3_moe", "model.layers.0.mlp", "model.layers.0.mlp.gate.weight", qwen3},
    {"qwen3_moe", "model.layers.1.mlp", "model.layers.1.mlp.gate.weight", qwen3},
    {"olmoe", "model.layers.0.mlp", "model.layers.0.mlp.gate.weight", olmoe},
    {"olmoe", "model.layers.1.mlp", "model.layers.1.mlp.gate.weight", olmoe},
    {"deepseek_v3", "model.layers.1.mlp", "model.layers.1.mlp.gate.weight", deepseek, true, nullptr,
     "model.layers.1.mlp.gate.e_score_correction_bias"},
    {"deepseek_v3", "model.layers.2.mlp", "model.layers.2.mlp.gate.weight", deepseek, true, nullptr,
     "model.layers.2.mlp.gate.e_score_correction_bias"},
    {"gpt_oss", "model.layers.0.mlp", "model.layers.0.mlp.router.weight", gpt_oss, false,
     "model.layers.0.mlp.router.bias"},
    {"gpt_oss", "model.layers.1.mlp", "model.layers.1.mlp.router.weight", gpt_oss, false,
     "model.layers.1.mlp.router.bias"},
    {"deepseek_v2", "model.layers.1.mlp", "model.layers.1.mlp.gate.weight", deepseek_v2, true},
    {"deepseek_v2", "model.layers.2.mlp", "model.layers.2.mlp.gate.weight", deepseek_v2, true},
    {"deepseek_v2_greedy", "model.layers.1.mlp", "model.layers.1.mlp.gate.weight",
     deepseek_v2_greedy, true},
    {"dots1", "model.layers.1.mlp", "model.layers.1.mlp.gate.weight", dots1, true, nullptr,
     "model.layers.1.mlp.gate.e_score_correction_bias"},
    {"ernie4_5_moe", "model.layers.1.mlp", "model.layers.1.mlp.gate.weight", ernie, false, nullptr,
     "model.layers.1.mlp.moe_statics.e_score_correction_bias"},
    {"ernie4_5_moe", "model.layers.3.mlp", "model.layers.3.mlp.gate.weight", ernie, false, nullptr,
     "model.layers.3.mlp.moe_statics.e_score_correction_bias"},
    {"glm4_moe", "model.layers.1.mlp", "model.layers.1.mlp.gate.weight", glm4, true, nullptr,
     "model.layers.1.mlp.gate.e_score_correction_bias"},
    {"granitemoe", "model.layers.0.block_sparse_moe",
     "model.layers.0.block_sparse_moe.router.layer.weight", granite},
    {"minimax_m2", "model.layers.0.mlp", "model.layers.0.block_sparse_moe.gate.weight", minimax,
     true, nullptr, "model.layers.0.block_sparse_moe.e_score_correction_bias"},
    {"phimoe", "model.layers.0.mlp", "model.layers.0.block_sparse_moe.gate.weight", phimoe},
    {"phimoe", "model.layers.1.mlp", "model.layers.1.block_sparse_moe.gate.weight", phimoe},
    {"qwen2_moe", "model.layers.1.mlp", "model.layers.1.mlp.gate.weight", qwen2},
};

class RouterRecording : public ::testing::TestWithParam<RecordedRouter> {
 protected:
  TensorView tensor(const char* name) const {
    if (name == nullptr) return {};
    const SafetensorsTensor* found = model.find(name);
    if (found == nullptr) throw std::out_of_range(name);
    if (found->shape.size() == 1 || found->shape[0] == 1) {  // a bias, [E] or [1, E]
      return TensorView::contiguous(found->bytes.data(), found->dtype, {found->shape.back()});
    }
    return TensorView::contiguous(found->bytes.data(), found->dtype,
                                  {found->shape[0], found->shape[1]});
  }
  SafetensorsFile model =
      SafetensorsFile::open(checkpoint_directory(GetParam().family) + "/model.safetensors");
  Recording recording{GetParam().family};
};

// A token's choices as (expert, gate), in the order of their ids.
std::vector<std::pair<std::int64_t, float>> choices_of(std::span<const std::int64_t> experts,
                                                       std::span<const float> gates) {
  std::vector<std::pair<std::int64_t, float>> choices;
  for (std::size_t j = 0; j < experts.size(); ++j) choices.emplace_back(experts[j], gates[j]);
  std::ranges::sort(choices);
  return choices;
}

TEST_P(RouterRecording, ChoosesTheRecordedExpertsWithTheirGates) {
  const RecordedRouter& param = GetParam();
  const std::string block = param.block;
  const std::vector<float> hidden = recording.hidden(block);
  const auto ids = recording.read<std::int64_t>(block + ".experts_in.arg1");
  const auto gates = recording.read<float>(block + ".experts_in.arg2");

  const Router router{param.spec, tensor(param.weight), tensor(param.bias),
                      tensor(param.selection_bias)};
  const std::int64_t width = router.weight.shape[1];
  const auto tokens = static_cast<std::int64_t>(hidden.size()) / width;
  const RoutingResult result =
      route(router, TensorView::contiguous(hidden.data(), DType::f32, {tokens, width}));

  const std::vector<std::int64_t> chosen(result.experts.begin(), result.experts.end());
  ASSERT_EQ(chosen.size(), ids.size());
  if (!param.recorded_order_is_open) {
    EXPECT_EQ(chosen, ids);
  }
  const auto k = static_cast<std::size_t>(result.topk);
  for (std::size_t t = 0; t < ids.size(); t += k) {
    const auto ours =
        choices_of(std::span(chosen).subspan(t, k), std::span(result.gates).subspan(t, k));
    const auto theirs = choices_of(std::span(ids).subspan(t, k), std::span(gates).subspan(t, k));
    for (std::size_t j = 0; j < k; ++j) {
      EXPECT_EQ(ours[j].first, theirs[j].first) << "token " << t / k;
      EXPECT_NEAR(ours[j].second, theirs[j].second, 1e-6F) << "token " << t / k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, RouterRecording, ::testing::ValuesIn(recorded),
                         [](const auto& test) {
                           return std::string(test.param.family) + "_layer_" + test.param.block[13];
                         });

}  // namespace
}  // namespace waybill
