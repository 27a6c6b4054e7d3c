// The recorded blocks of the families on the GPU in bf16, shared experts included, against what the
// Hugging Face library computed in float32. Not Llama 4's, whose gates multiply the experts' input.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "cuda/gpu.h"
#include "exec/cuda/device_layer.h"
#include "support/difference.h"
#include "support/recording.h"
#include "waybill/checkpoint.h"
#include "waybill/selection.h"

namespace waybill {
namespace {

using testing::frobenius_difference;
using testing::gpu;
using testing::matrix;
using testing::on_gpu;

// Experts, and which of them each token takes.
struct RoutedExperts {
  std::vector<ExpertWeights> experts;
  std::int32_t topk;
  std::vector<std::int32_t> ids;
  std::vector<float> gates;
};

// Rows [T, d] in f32: the weighted sum over each token's experts, then `shared`.
DeviceArray<float> run_experts(const RoutedExperts& routed, const ModelConfig& config,
                               const std::vector<float>& rows, const float* shared = nullptr) {
  std::vector<const ExpertWeights*> slots;
  for (const ExpertWeights& w : routed.experts) slots.push_back(&w);
  const auto count = static_cast<std::int32_t>(routed.experts.size());
  const auto placement = Placement::contiguous(PlacementVersion{"one-rank"}, count, 1);
  const std::vector<std::int64_t> counts(routed.experts.size(), 0);
  const SelectionTable table =
      select(Selector::first, placement, Topology::uniform(1), Rank{0}, counts);

  const std::int32_t tokens = static_cast<std::int32_t>(rows.size()) / config.hidden;
  std::vector<__nv_bfloat16> narrow;
  for (const float x : rows) narrow.emplace_back(x);
  const auto hidden = on_gpu(narrow);
  const auto ids = on_gpu(routed.ids);
  const auto gates = on_gpu(routed.gates);
  auto output = on_gpu(std::vector<float>(rows.size(), -12345.0F));
  const auto layer = make_device_layer(
      {.max_tokens = tokens, .topk = routed.topk, .activation = config.activation}, table,
      placement, copy_experts(slots, gpu));
  const Stream stream = Stream::on(gpu);
  layer->forward(
      {.experts = matrix(ids, DType::i32, tokens, routed.topk),
       .gates = matrix(gates, DType::f32, tokens, routed.topk),
       .hidden = matrix(hidden, DType::bf16, tokens, config.hidden),
       .output = matrix(output, DType::f32, tokens, config.hidden),
       .shared = TensorView::contiguous(shared, DType::f32, {tokens, config.hidden}, gpu)},
      stream);
  layer->check(stream);
  return output;
}

RoutedExperts recorded_routes(const Checkpoint& checkpoint, LayerId layer,
                              const testing::Recording& recording) {
  const std::string block = checkpoint.block_name(layer);
  const auto ids = recording.read<std::int64_t>(block + ".experts_in.arg1");
  RoutedExperts routed{.experts = {},
                       .topk = checkpoint.config().topk,
                       .ids = {ids.begin(), ids.end()},
                       .gates = recording.read<float>(block + ".experts_in.arg2")};
  for (std::int32_t e = 0; e < checkpoint.config().experts; ++e) {
    routed.experts.push_back(checkpoint.expert(layer, ExpertId{e}));
  }
  return routed;
}

// The shared expert is one that every token takes, with its own gate where it has one.
RoutedExperts shared_routes(const Checkpoint& checkpoint, LayerId layer,
                            const ExpertWeights& shared, const std::vector<float>& rows) {
  const std::int64_t hidden = checkpoint.config().hidden;
  const std::int64_t tokens = static_cast<std::int64_t>(rows.size()) / hidden;
  const auto count = static_cast<std::size_t>(tokens);
  RoutedExperts routed{.experts = {shared},
                       .topk = 1,
                       .ids = std::vector<std::int32_t>(count, 0),
                       .gates = std::vector<float>(count, 1.0F)};
  if (const auto router = checkpoint.shared_expert_router(layer)) {
    routed.gates =
        route(*router, TensorView::contiguous(rows.data(), DType::f32, {tokens, hidden})).gates;
  }
  return routed;
}

class RecordedFamily : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordedFamily, ExpertsAndWholeBlockAgreeTo1e2InFrobeniusNorm) {
  const Checkpoint checkpoint = Checkpoint::open(testing::checkpoint_directory(GetParam()));
  const testing::Recording recording(GetParam());
  for (const LayerId layer : checkpoint.config().moe_layers) {
    const std::string block = checkpoint.block_name(layer);
    const std::vector<float> rows = recording.hidden(block);
    const RoutedExperts routed = recorded_routes(checkpoint, layer, recording);
    DeviceArray<float> shared_rows;
    if (const auto shared = checkpoint.shared_expert(layer)) {
      shared_rows =
          run_experts(shared_routes(checkpoint, layer, *shared, rows), checkpoint.config(), rows);
    }
    const std::vector<float> experts_out =
        run_experts(routed, checkpoint.config(), rows).download();
    const std::vector<float> block_out =
        run_experts(routed, checkpoint.config(), rows, shared_rows.data()).download();
    const double experts =
        frobenius_difference(experts_out, recording.read<float>(block + ".experts_out"));
    const double whole =
        frobenius_difference(block_out, recording.read<float>(block + ".block_out"));
    EXPECT_LE(experts, 1e-2) << block;
    EXPECT_LE(whole, 1e-2) << block;
    std::printf("%s %s relative Frobenius: experts %.2e, block %.2e%s\n", GetParam(), block.c_str(),
                experts, whole, shared_rows.size() > 0 ? " with its shared expert" : "");
  }
}

INSTANTIATE_TEST_SUITE_P(Families, RecordedFamily,
                         ::testing::Values("deepseek_v2", "deepseek_v2_greedy", "deepseek_v3",
                                           "dots1", "ernie4_5_moe", "glm4_moe", "gpt_oss",
                                           "granitemoe", "minimax_m2", "mixtral", "olmoe", "phimoe",
                                           "qwen2_moe", "qwen3_moe"));

}  // namespace
}  // namespace waybill
