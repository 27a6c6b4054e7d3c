// The recorded blocks of every family, over ranks, against what the Hugging Face library computed
// in float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "support/difference.h"
#include "support/random_placement.h"
#include "support/recording.h"
#include "waybill/block.h"

namespace waybill {
namespace {

using testing::frobenius_difference;
using testing::largest_difference;

std::vector<std::set<std::int64_t>> chosen_by_token(const auto& ids, std::int32_t topk) {
  std::vector<std::set<std::int64_t>> tokens;
  for (auto id = ids.begin(); id != ids.end(); id += topk) tokens.emplace_back(id, id + topk);
  return tokens;
}

// The weighted sum of the routed experts. Llama 4 recorded every expert on every token, a token
// that didn't choose it being zero: [E * T, d], expert-major.
std::vector<float> recorded_experts(const testing::Recording& recording, const std::string& block,
                                    std::size_t elements) {
  const auto recorded = recording.read<float>(block + ".experts_out");
  std::vector<float> sum(elements, 0.0F);
  for (std::size_t i = 0; i < recorded.size(); ++i) sum[i % elements] += recorded[i];
  return sum;
}

// Llama 4 recorded scores of all experts instead of ids; those that weren't chosen are zero.
std::vector<std::set<std::int64_t>> recorded_choices(const testing::Recording& recording,
                                                     const std::string& block,
                                                     const ModelConfig& config) {
  if (!config.scales_input) {
    return chosen_by_token(recording.read<std::int64_t>(block + ".experts_in.arg1"), config.topk);
  }
  const auto scores = recording.read<float>(block + ".router_out0");
  const auto experts = static_cast<std::size_t>(config.experts);
  std::vector<std::set<std::int64_t>> tokens(scores.size() / experts);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] != 0) tokens[i / experts].insert(static_cast<std::int64_t>(i % experts));
  }
  return tokens;
}

BlockRun run_recorded(const Checkpoint& checkpoint, LayerId layer, DType dtype, std::int32_t ranks,
                      std::span<const float> hidden) {
  PlacementRegistry registry;
  registry.load(testing::generation_of(
      Placement::contiguous(PlacementVersion{"placement-0"}, checkpoint.config().experts, ranks),
      checkpoint.config().moe_layers));
  registry.activate(PlacementVersion{"placement-0"});
  ExpertStore store(checkpoint, dtype);
  LocalGroup group(ProcessGroup::identity(ranks));
  BlockOptions options;
  options.dtype = dtype;
  options.checks = Checks::full;
  return run_block(checkpoint, layer, options, store, group, registry, Topology::uniform(ranks),
                   hidden);
}

class RecordedBlock : public ::testing::TestWithParam<std::tuple<std::string, std::int32_t>> {};

TEST_P(RecordedBlock, F32AgreesTo5e6OfTheLargestMagnitudeAndInEveryTopK) {
  const auto& [family, ranks] = GetParam();
  const Checkpoint checkpoint = Checkpoint::open(testing::checkpoint_directory(family));
  const testing::Recording recording(family);
  for (LayerId layer : checkpoint.config().moe_layers) {
    const std::string block = checkpoint.block_name(layer);
    const BlockRun run =
        run_recorded(checkpoint, layer, DType::f32, ranks, recording.hidden(block));
    EXPECT_LE(largest_difference(run.experts_out,
                                 recorded_experts(recording, block, run.experts_out.size())),
              5e-6);
    EXPECT_LE(largest_difference(run.block_out, recording.read<float>(block + ".block_out")), 5e-6);
    // Not the order of a token's ids: DeepSeek's router asks for an unsorted top-k.
    EXPECT_EQ(recorded_choices(recording, block, checkpoint.config()),
              chosen_by_token(run.topk_experts, checkpoint.config().topk));
  }
}

TEST_P(RecordedBlock, Bf16AgreesTo1e2InFrobeniusNorm) {
  const auto& [family, ranks] = GetParam();
  const Checkpoint checkpoint = Checkpoint::open(testing::checkpoint_directory(family));
  const testing::Recording recording(family);
  for (LayerId layer : checkpoint.config().moe_layers) {
    const std::string block = checkpoint.block_name(layer);
    const BlockRun run =
        run_recorded(checkpoint, layer, DType::bf16, ranks, recording.hidden(block));
    EXPECT_LE(frobenius_difference(run.experts_out,
                                   recorded_experts(recording, block, run.experts_out.size())),
              1e-2);
    EXPECT_LE(frobenius_difference(run.block_out, recording.read<float>(block + ".block_out")),
              1e-2);
  }
}

TEST_P(RecordedBlock, TheDirectEvaluationAgreesToo) {
  const auto& [family, ranks] = GetParam();
  const Checkpoint checkpoint = Checkpoint::open(testing::checkpoint_directory(family));
  const testing::Recording recording(family);
  const auto d = static_cast<std::size_t>(checkpoint.config().hidden);
  const auto k = static_cast<std::size_t>(checkpoint.config().topk);
  for (LayerId layer : checkpoint.config().moe_layers) {
    const std::string block = checkpoint.block_name(layer);
    const auto hidden = recording.hidden(block);
    const BlockRun run = run_recorded(checkpoint, layer, DType::f32, ranks, hidden);
    std::vector<float> direct(hidden.size());
    for (std::size_t t = 0; t < hidden.size() / d; ++t) {
      const DirectRow row =
          evaluate_directly(checkpoint, layer, std::span(hidden).subspan(t * d, d),
                            std::span(run.topk_experts).subspan(t * k, k),
                            std::span(run.topk_gates).subspan(t * k, k));
      std::ranges::transform(row.block_out, direct.begin() + static_cast<std::ptrdiff_t>(t * d),
                             [](double v) { return static_cast<float>(v); });
      const auto hidden_row = std::span(hidden).subspan(t * d, d);
      EXPECT_EQ(judge(route_directly(checkpoint, layer, hidden_row),
                      std::span(run.topk_experts).subspan(t * k, k),
                      std::span(run.topk_gates).subspan(t * k, k)),
                RoutingVerdict::right)
          << "token " << t;
    }
    EXPECT_LE(largest_difference(run.block_out, direct), 5e-6);
  }
}

class DirectRouter : public ::testing::TestWithParam<std::string> {};

// An expert that isn't chosen in place of the least of those that are; a gate off by a thousandth.
TEST_P(DirectRouter, TellsWrongExpertsAndWrongGates) {
  const Checkpoint checkpoint = Checkpoint::open(testing::checkpoint_directory(GetParam()));
  const LayerId layer = checkpoint.config().moe_layers.front();
  const auto d = static_cast<std::size_t>(checkpoint.config().hidden);
  const std::vector<float> hidden =
      testing::Recording(GetParam()).hidden(checkpoint.block_name(layer));
  for (std::size_t row = 0; row < hidden.size(); row += d) {
    const DirectRouting direct =
        route_directly(checkpoint, layer, std::span(hidden).subspan(row, d));
    const std::vector<float> gates(direct.gates.begin(), direct.gates.end());
    EXPECT_EQ(judge(direct, direct.experts, gates), RoutingVerdict::right);
    std::vector<std::int32_t> experts = direct.experts;
    while (std::ranges::count(direct.experts, experts.back()) > 0) {
      experts.back() = (experts.back() + 1) % checkpoint.config().experts;
    }
    EXPECT_EQ(judge(direct, experts, gates), RoutingVerdict::other_experts);
    std::vector<float> other_gates = gates;
    other_gates.front() *= 1.001F;
    EXPECT_EQ(judge(direct, direct.experts, other_gates), RoutingVerdict::other_gates);
  }
}

// With a row of zeros no expert of these routers is better than another.
TEST(DirectRouterTies, AreNoFault) {
  const Checkpoint checkpoint = Checkpoint::open(testing::checkpoint_directory("qwen3_moe"));
  const LayerId layer = checkpoint.config().moe_layers.front();
  const std::vector<float> zeros(static_cast<std::size_t>(checkpoint.config().hidden), 0.0F);
  const DirectRouting direct = route_directly(checkpoint, layer, zeros);
  std::vector<std::int32_t> others;
  for (std::int32_t e = checkpoint.config().experts; others.size() < direct.experts.size();) {
    others.push_back(--e);
  }
  const std::vector<float> gates(direct.gates.begin(), direct.gates.end());
  EXPECT_EQ(judge(direct, others, gates), RoutingVerdict::tied);
}

INSTANTIATE_TEST_SUITE_P(Routers, DirectRouter,
                         ::testing::Values("deepseek_v2", "deepseek_v3", "gpt_oss", "llama4_text",
                                           "phimoe", "qwen3_moe"),
                         [](const auto& param) { return std::string(param.param); });

INSTANTIATE_TEST_SUITE_P(
    Families, RecordedBlock,
    ::testing::Combine(::testing::Values("deepseek_v2", "deepseek_v2_greedy", "deepseek_v3",
                                         "dots1", "ernie4_5_moe", "glm4_moe", "gpt_oss",
                                         "granitemoe", "llama4_text", "minimax_m2", "mixtral",
                                         "olmoe", "phimoe", "qwen2_moe", "qwen3_moe"),
                       ::testing::Values(1, 3, 4)),
    [](const auto& param) {
      return std::get<0>(param.param) + "_ranks" + std::to_string(std::get<1>(param.param));
    });

}  // namespace
}  // namespace waybill
