// The recorded blocks of the five families on the GPU in bf16, against what the Hugging Face
// library computed in float32.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cuda/gpu.h"
#include "exec/cuda/device_layer.h"
#include "support/recording.h"
#include "waybill/checkpoint.h"
#include "waybill/selection.h"

namespace waybill {
namespace {

using testing::gpu;
using testing::on_gpu;

double relative_frobenius(std::span<const float> a, std::span<const float> b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double delta = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += delta * delta;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference / norm);
}

std::vector<float> run_block_on_gpu(const Checkpoint& checkpoint, LayerId layer,
                                    const testing::Recording& recording) {
  const ModelConfig& config = checkpoint.config();
  const std::string block = checkpoint.block_name(layer);
  std::vector<ExpertWeights> weights;
  for (std::int32_t e = 0; e < config.experts; ++e) {
    weights.push_back(checkpoint.expert(layer, ExpertId{e}));
  }
  std::vector<const ExpertWeights*> slots;
  for (const ExpertWeights& w : weights) slots.push_back(&w);
  const DeviceExperts experts = DeviceExperts::copy(slots, gpu);

  const auto placement = Placement::contiguous(PlacementVersion{"one-rank"}, config.experts, 1);
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(config.experts), 0);
  const SelectionTable table =
      select(Selector::first, placement, Topology::uniform(1), Rank{0}, counts);
  const DevicePlanTables tables(table, placement, ProcessGroup::identity(1), Rank{0}, config.topk,
                                gpu);

  const std::vector<float> rows = recording.hidden(block);
  const auto ids = recording.read<std::int64_t>(block + ".experts_in.arg1");
  std::vector<__nv_bfloat16> hidden;
  for (const float x : rows) hidden.emplace_back(x);
  const auto tokens = static_cast<std::int32_t>(rows.size()) / config.hidden;
  const auto hidden_gpu = on_gpu(hidden);
  const auto ids_gpu = on_gpu(std::vector<std::int32_t>(ids.begin(), ids.end()));
  const auto gates_gpu = on_gpu(recording.read<float>(block + ".experts_in.arg2"));
  const auto output = on_gpu(std::vector<float>(rows.size(), -12345.0F));

  DeviceLayer device_layer({.max_tokens = tokens, .activation = config.activation}, tables,
                           experts);
  const Stream stream = Stream::on(gpu);
  device_layer.forward(
      {.tokens = tokens,
       .experts = ids_gpu.data(),
       .gates = gates_gpu.data(),
       .hidden =
           TensorView::contiguous(hidden_gpu.data(), DType::bf16, {tokens, config.hidden}, gpu),
       .output = TensorView::contiguous(output.data(), DType::f32, {tokens, config.hidden}, gpu)},
      stream);
  device_layer.check(stream);
  return output.download();
}

class RecordedFamily : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordedFamily, Bf16ExpertsAgreeTo1e2InFrobeniusNorm) {
  const Checkpoint checkpoint = Checkpoint::open(testing::checkpoint_directory(GetParam()));
  const testing::Recording recording(GetParam());
  for (const LayerId layer : checkpoint.config().moe_layers) {
    const double difference =
        relative_frobenius(run_block_on_gpu(checkpoint, layer, recording),
                           recording.read<float>(checkpoint.block_name(layer) + ".experts_out"));
    EXPECT_LE(difference, 1e-2) << checkpoint.block_name(layer);
    RecordProperty(checkpoint.block_name(layer), std::to_string(difference));
    std::printf("%s %s relative Frobenius %.2e\n", GetParam(), checkpoint.block_name(layer).c_str(),
                difference);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, RecordedFamily,
                         ::testing::Values("mixtral", "qwen3_moe", "olmoe", "deepseek_v3",
                                           "gpt_oss"));

}  // namespace
}  // namespace waybill
