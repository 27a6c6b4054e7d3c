// Other legal ways to store a checkpoint: shards, other dtypes, other names of a field, any
// address.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "model/editable_checkpoint.h"
#include "support/temporary_folder.h"
#include "waybill/checkpoint.h"

namespace waybill {
namespace {

using testing::EditableCheckpoint;
using testing::TemporaryFolder;

constexpr LayerId layer{1};
constexpr ExpertId expert{5};

bool same_bytes(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.bytes() == b.bytes() &&
         std::memcmp(a.data, b.data, a.bytes()) == 0;
}

TEST(CheckpointVariants, ShardsHoldTheSameTensorsAsOneFile) {
  const EditableCheckpoint source = EditableCheckpoint::shipped("deepseek_v3");
  const TemporaryFolder whole, cut;
  source.write(whole.path());
  source.write_sharded(cut.path(), 5);
  const Checkpoint a = Checkpoint::open(whole.path());
  const Checkpoint b = Checkpoint::open(cut.path());
  EXPECT_EQ(a.inventory().expert_tensors, b.inventory().expert_tensors);
  EXPECT_TRUE(same_bytes(a.expert(layer, expert).gate, b.expert(layer, expert).gate));
  EXPECT_TRUE(same_bytes(a.expert(layer, expert).down, b.expert(layer, expert).down));
  EXPECT_TRUE(same_bytes(a.shared_expert(layer)->up, b.shared_expert(layer)->up));
  EXPECT_TRUE(same_bytes(a.router(layer).selection_bias, b.router(layer).selection_bias));
}

TEST(CheckpointVariants, TensorsMayHaveDifferentFloatTypes) {
  const TemporaryFolder folder;
  EditableCheckpoint checkpoint = EditableCheckpoint::shipped("deepseek_v3");
  checkpoint.replace("model.layers.1.mlp.gate.e_score_correction_bias", DType::f32, {16});
  checkpoint.replace("model.layers.1.mlp.experts.5.up_proj.weight", DType::f16, {40, 64});
  checkpoint.write(folder.path());
  const Checkpoint opened = Checkpoint::open(folder.path());
  EXPECT_EQ(opened.router(layer).selection_bias.dtype, DType::f32);
  EXPECT_EQ(opened.expert(layer, expert).up.dtype, DType::f16);
  EXPECT_EQ(opened.expert(layer, expert).gate.dtype, DType::bf16);
}

// Writers that don't pad their header put every tensor at an odd address.
TEST(CheckpointVariants, UnalignedTensorsAreReadWhereTheyAreAligned) {
  const TemporaryFolder folder;
  const EditableCheckpoint source = EditableCheckpoint::shipped("gpt_oss");
  source.write(folder.path());
  const std::string path = folder.file("model.safetensors");
  std::ifstream in(path, std::ios::binary);
  std::string file(std::istreambuf_iterator<char>(in), {});
  ASSERT_LT(static_cast<unsigned char>(file[0]), 255);
  ++file[0];  // a header longer by a blank
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), 8);
  file.insert(7 + static_cast<std::size_t>(header), 1, ' ');
  folder.write("model.safetensors", file);

  const Checkpoint opened = Checkpoint::open(folder.path());
  const TensorView bias = opened.router(layer).bias;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bias.data) % size_of(bias.dtype), 0U);
  const auto& wanted = source.tensors.at("model.layers.1.mlp.router.bias").bytes;
  EXPECT_EQ(std::memcmp(bias.data, wanted.data(), wanted.size()), 0);
  opened.drop_pages(layer);
  EXPECT_EQ(std::memcmp(bias.data, wanted.data(), wanted.size()), 0);
}

TEST(CheckpointVariants, FieldsMayHaveTheirOlderNames) {
  const TemporaryFolder folder;
  EditableCheckpoint checkpoint = EditableCheckpoint::shipped("gpt_oss");
  checkpoint.config["experts_per_token"] = checkpoint.config["num_experts_per_tok"];
  checkpoint.write_config(folder.path());
  checkpoint.config.erase("num_experts_per_tok");
  checkpoint.config["swiglu_limit"] = 5.5;
  checkpoint.write(folder.path());
  const Checkpoint opened = Checkpoint::open(folder.path());
  EXPECT_EQ(opened.config().topk, 4);
  EXPECT_EQ(opened.config().activation.limit, 5.5F);
  EXPECT_EQ(opened.config().activation.alpha, 1.702F);
}

TEST(CheckpointVariants, AbsentFieldsTakeTheFamilysDefault) {
  const TemporaryFolder folder;
  EditableCheckpoint qwen = EditableCheckpoint::shipped("qwen3_moe");
  qwen.config.erase("norm_topk_prob");
  qwen.write(folder.path());
  EXPECT_FALSE(Checkpoint::open(folder.path()).config().router.renormalize);

  EditableCheckpoint deepseek = EditableCheckpoint::shipped("deepseek_v3");
  deepseek.config.erase("norm_topk_prob");
  deepseek.config.erase("hidden_act");
  deepseek.write(folder.path());
  EXPECT_TRUE(Checkpoint::open(folder.path()).config().router.renormalize);
}

TEST(CheckpointVariants, AbsentFieldsOfLaterFamiliesTakeTheirDefaultToo) {
  const auto without = [](const char* family, std::initializer_list<const char*> fields) {
    const TemporaryFolder folder;
    EditableCheckpoint checkpoint = EditableCheckpoint::shipped(family);
    for (const char* field : fields) checkpoint.config.erase(field);
    checkpoint.write(folder.path());
    return Checkpoint::open(folder.path()).config();
  };
  const ModelConfig glm = without(
      "glm4_moe", {"n_group", "topk_group", "first_k_dense_replace", "routed_scaling_factor"});
  EXPECT_EQ(glm.router.groups, 1);
  EXPECT_EQ(glm.router.scale, 1.0F);
  EXPECT_EQ(glm.moe_layers.front(), LayerId(1));
  EXPECT_FALSE(without("dots1", {"norm_topk_prob"}).router.renormalize);
  EXPECT_EQ(without("deepseek_v2", {"topk_method"}).router.groups, 1);
  EXPECT_EQ(without("phimoe", {"router_jitter_noise"}).router.jitter_epsilon, 0.01F);
  EXPECT_EQ(without("ernie4_5_moe", {"moe_norm_min"}).router.renormalize_floor, 1e-12F);
  EXPECT_EQ(
      without("ernie4_5_moe", {"moe_layer_start_index", "moe_layer_end_index"}).moe_layers.back(),
      LayerId(3));
  EXPECT_EQ(without("llama4_text", {"moe_layers"}).moe_layers.size(), 2U);
}

TEST(CheckpointVariants, DenseLayersAreLeftOut) {
  const auto layers = [](EditableCheckpoint& checkpoint) {
    const TemporaryFolder folder;
    checkpoint.write(folder.path());
    const Checkpoint opened = Checkpoint::open(folder.path());
    std::vector<std::int32_t> found;
    for (const LayerId id : opened.config().moe_layers) found.push_back(id.value);
    return found;
  };
  EditableCheckpoint qwen = EditableCheckpoint::shipped("qwen3_moe");
  qwen.config["mlp_only_layers"] = {1};
  EXPECT_EQ(layers(qwen), (std::vector<std::int32_t>{0}));
  qwen.config["mlp_only_layers"] = nullptr;
  qwen.config["decoder_sparse_step"] = 2;
  EXPECT_EQ(layers(qwen), (std::vector<std::int32_t>{1}));

  EditableCheckpoint deepseek = EditableCheckpoint::shipped("deepseek_v3");
  deepseek.config["moe_layer_freq"] = 2;
  EXPECT_EQ(layers(deepseek), (std::vector<std::int32_t>{2}));

  EditableCheckpoint llama = EditableCheckpoint::shipped("llama4_text");
  llama.config["moe_layers"] = {1};
  EXPECT_EQ(layers(llama), (std::vector<std::int32_t>{1}));
  llama.config["moe_layers"] = nullptr;
  llama.config["interleave_moe_layer_step"] = 2;
  EXPECT_EQ(layers(llama), (std::vector<std::int32_t>{1}));

  EditableCheckpoint ernie = EditableCheckpoint::shipped("ernie4_5_moe");
  ernie.config["moe_layer_start_index"] = 2;
  EXPECT_EQ(layers(ernie), (std::vector<std::int32_t>{3}));
  ernie.config["moe_layer_start_index"] = 0;
  ernie.config["moe_layer_end_index"] = 2;
  EXPECT_EQ(layers(ernie), (std::vector<std::int32_t>{1}));
}

TEST(CheckpointVariants, SharedExpertsAreOneOfTheirJointWidth) {
  const TemporaryFolder folder;
  EditableCheckpoint checkpoint = EditableCheckpoint::shipped("deepseek_v3");
  checkpoint.config["n_shared_experts"] = 0;
  checkpoint.write(folder.path());
  const Checkpoint none = Checkpoint::open(folder.path());
  EXPECT_EQ(none.config().shared_ff, 0);
  EXPECT_FALSE(none.shared_expert(layer).has_value());
  EXPECT_EQ(none.inventory().unused.size(), 2U * 3U);

  checkpoint.config["n_shared_experts"] = 2;
  for (const char* block :
       {"model.layers.1.mlp.shared_experts.", "model.layers.2.mlp.shared_experts."}) {
    checkpoint.replace(std::string(block) + "gate_proj.weight", DType::bf16, {80, 64});
    checkpoint.replace(std::string(block) + "up_proj.weight", DType::bf16, {80, 64});
    checkpoint.replace(std::string(block) + "down_proj.weight", DType::bf16, {64, 80});
  }
  checkpoint.write(folder.path());
  EXPECT_EQ(Checkpoint::open(folder.path()).shared_expert(layer)->ff(), 80);
}

}  // namespace
}  // namespace waybill
