// The shipped checkpoints, loaded whole.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "waybill/checkpoint.h"

namespace waybill {
namespace {

Checkpoint shipped(const std::string& family) {
  return Checkpoint::open(std::string(WAYBILL_TEST_DATA) + "/checkpoints/" + family);
}

struct Facts {
  std::string family;
  std::int32_t layers;
  std::vector<std::int32_t> moe_layers;
  std::int32_t ff, experts, topk, shared_ff;
  std::size_t expert_tensors;
  RouterScore score;
  bool renormalize;
  std::int32_t hidden = 64;
  std::string block = "mlp";
};

class ShippedCheckpoint : public ::testing::TestWithParam<Facts> {};

TEST_P(ShippedCheckpoint, AccountsForEveryExpertTensor) {
  const Facts& facts = GetParam();
  const Checkpoint checkpoint = shipped(facts.family);
  const ModelConfig& config = checkpoint.config();

  EXPECT_EQ(config.family, facts.family);
  EXPECT_EQ(config.layers, facts.layers);
  std::vector<std::int32_t> moe_layers;
  for (const LayerId layer : config.moe_layers) moe_layers.push_back(layer.value);
  EXPECT_EQ(moe_layers, facts.moe_layers);
  EXPECT_EQ(config.hidden, facts.hidden);
  EXPECT_EQ(config.ff, facts.ff);
  EXPECT_EQ(config.experts, facts.experts);
  EXPECT_EQ(config.topk, facts.topk);
  EXPECT_EQ(config.shared_ff, facts.shared_ff);
  EXPECT_EQ(config.router.score, facts.score);
  EXPECT_EQ(config.router.renormalize, facts.renormalize);
  EXPECT_EQ(config.router.experts, facts.experts);
  EXPECT_EQ(config.router.topk, facts.topk);

  EXPECT_EQ(checkpoint.inventory().expert_tensors, facts.expert_tensors);
  EXPECT_TRUE(checkpoint.inventory().missing.empty());
  EXPECT_TRUE(checkpoint.inventory().unused.empty());
  for (const LayerId layer : config.moe_layers) {
    EXPECT_EQ(checkpoint.block_name(layer),
              fmt::format("model.layers.{}.{}", layer.value, facts.block));
    EXPECT_EQ(shape_text(checkpoint.router(layer).weight),
              fmt::format("[{}, {}]", facts.experts, facts.hidden));
    EXPECT_EQ(checkpoint.shared_expert(layer).has_value(), facts.shared_ff != 0);
    for (std::int32_t e = 0; e < facts.experts; ++e) {
      const ExpertWeights expert = checkpoint.expert(layer, ExpertId(e));
      EXPECT_EQ(expert.ff(), facts.ff);
      EXPECT_EQ(expert.hidden(), facts.hidden);
      EXPECT_EQ(shape_text(expert.up), shape_text(expert.gate));
      EXPECT_EQ(shape_text(expert.down), fmt::format("[{}, {}]", facts.hidden, facts.ff));
    }
  }
}

constexpr auto softmax = RouterScore::softmax_then_topk;
constexpr auto chosen_softmax = RouterScore::topk_then_softmax;

INSTANTIATE_TEST_SUITE_P(
    OfEveryFamily, ShippedCheckpoint,
    ::testing::Values(
        Facts{"deepseek_v2", 3, {1, 2}, 40, 12, 3, 80, 2 * (12 + 1) * 3, softmax, false, 48},
        Facts{
            "deepseek_v3", 3, {1, 2}, 40, 16, 4, 40, 2 * (16 + 1) * 3, RouterScore::sigmoid, true},
        Facts{"dots1", 3, {1, 2}, 40, 12, 4, 80, 2 * (12 + 1) * 3, RouterScore::sigmoid, false, 48},
        Facts{"ernie4_5_moe", 4, {1, 3}, 40, 12, 4, 80, 2 * (12 + 1) * 3, softmax, true, 48},
        Facts{
            "glm4_moe", 3, {1, 2}, 40, 12, 4, 40, 2 * (12 + 1) * 3, RouterScore::sigmoid, true, 48},
        Facts{"gpt_oss", 2, {0, 1}, 64, 8, 4, 0, 2 * 4, chosen_softmax, false},
        Facts{"granitemoe",
              2,
              {0, 1},
              48,
              10,
              3,
              0,
              2 * 2,
              chosen_softmax,
              false,
              64,
              "block_sparse_moe"},
        Facts{"llama4_text",
              2,
              {0, 1},
              48,
              8,
              1,
              48,
              2 * (2 + 3),
              RouterScore::topk_then_sigmoid,
              false,
              64,
              "feed_forward"},
        Facts{"minimax_m2", 2, {0, 1}, 40, 12, 4, 0, 2 * 12 * 3, RouterScore::sigmoid, true, 48},
        Facts{"mixtral", 2, {0, 1}, 96, 8, 2, 0, 2 * 8 * 3, softmax, true},
        Facts{"olmoe", 2, {0, 1}, 48, 16, 8, 0, 2 * 16 * 3, softmax, false},
        Facts{"phimoe", 2, {0, 1}, 56, 8, 2, 0, 2 * 8 * 3, RouterScore::sparsemixer, false, 48},
        Facts{"qwen2_moe", 2, {0, 1}, 48, 12, 4, 80, 2 * (12 + 1) * 3, softmax, false},
        Facts{"qwen3_moe", 2, {0, 1}, 48, 16, 4, 0, 2 * 16 * 3, softmax, true}),
    [](const auto& facts) { return facts.param.family; });

TEST(Checkpoint, KnowsTheGroupLimitOfDeepseek) {
  const Checkpoint checkpoint = shipped("deepseek_v3");
  const RouterSpec& router = checkpoint.config().router;
  EXPECT_EQ(router.groups, 4);
  EXPECT_EQ(router.topk_groups, 2);
  EXPECT_EQ(router.scale, 2.5F);
  EXPECT_EQ(router.renormalize_epsilon, 1e-20F);
  EXPECT_EQ(shape_text(checkpoint.router(LayerId(1)).selection_bias), "[16]");
  EXPECT_EQ(checkpoint.router(LayerId(1)).bias.data, nullptr);
}

TEST(Checkpoint, ViewsInterleavedGateAndUpInPlace) {
  const Checkpoint checkpoint = shipped("gpt_oss");
  const ExpertWeights expert = checkpoint.expert(LayerId(1), ExpertId(3));
  EXPECT_EQ(expert.gate.strides[0], 2);
  EXPECT_EQ(expert.gate.strides[1], 128);
  EXPECT_EQ(expert.up.as<std::uint16_t>(), expert.gate.as<std::uint16_t>() + 1);
  EXPECT_EQ(expert.down.strides[0], 1);
  EXPECT_EQ(expert.down.strides[1], 64);
  EXPECT_EQ(shape_text(expert.gate_bias), "[64]");
  EXPECT_EQ(expert.up_bias.as<std::uint16_t>(), expert.gate_bias.as<std::uint16_t>() + 1);
  EXPECT_EQ(shape_text(expert.down_bias), "[64]");
  EXPECT_EQ(shape_text(checkpoint.router(LayerId(0)).bias), "[8]");
  EXPECT_EQ(checkpoint.config().activation.kind, ActivationKind::swiglu_clamped);
}

TEST(Checkpoint, ReadsPagesAgainAfterDroppingThem) {
  const Checkpoint checkpoint = shipped("mixtral");
  const auto* first = checkpoint.expert(LayerId(0), ExpertId(0)).gate.as<std::uint16_t>();
  const std::uint16_t before = *first;
  checkpoint.drop_pages(LayerId(0));
  EXPECT_EQ(*first, before);
}

TEST(Checkpoint, KnowsItsFamiliesInOrder) {
  EXPECT_EQ(family_names(), (std::vector<std::string_view>{
                                "deepseek_v2", "deepseek_v3", "dots1", "ernie4_5_moe", "glm4_moe",
                                "gpt_oss", "granitemoe", "llama4_text", "minimax_m2", "mixtral",
                                "olmoe", "phimoe", "qwen2_moe", "qwen3_moe"}));
}

}  // namespace
}  // namespace waybill
