// What the strict loader refuses, one case a fault: each names file and field or tensor.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "model/editable_checkpoint.h"
#include "support/fault.h"
#include "support/temporary_folder.h"
#include "waybill/checkpoint.h"

namespace waybill {
namespace {

using testing::EditableCheckpoint;
using testing::fault;
using testing::TemporaryFolder;

struct Damage {
  const char* fault;
  const char* family;
  std::function<void(EditableCheckpoint&)> edit;
  Code code;
  const char* file;
  const char* coordinate;
  const char* value;
};

class CheckpointRefuses : public ::testing::TestWithParam<Damage> {};

TEST_P(CheckpointRefuses, WithCodeAndPlace) {
  const Damage& damage = GetParam();
  const TemporaryFolder folder;
  EditableCheckpoint checkpoint = EditableCheckpoint::shipped(damage.family);
  damage.edit(checkpoint);
  checkpoint.write(folder.path());
  const Error error = fault([&] { Checkpoint::open(folder.path()); });
  EXPECT_EQ(error.code(), damage.code) << error.what();
  EXPECT_EQ(error.coordinate("file"), folder.file(damage.file)) << error.what();
  EXPECT_EQ(error.coordinate(damage.coordinate), damage.value) << error.what();
}

constexpr auto name_of = [](const auto& damage) { return std::string(damage.param.fault); };

Damage config(const char* fault, const char* family, const char* field, nlohmann::json value,
              Code code, const char* named = nullptr) {
  const auto edit = [=](EditableCheckpoint& checkpoint) { checkpoint.config[field] = value; };
  return {fault, family, edit, code, "config.json", "field", named == nullptr ? field : named};
}

Damage without(const char* fault, const char* family, const char* field) {
  const auto edit = [=](EditableCheckpoint& checkpoint) { checkpoint.config.erase(field); };
  return {fault, family, edit, Code::MissingField, "config.json", "field", field};
}

INSTANTIATE_TEST_SUITE_P(
    Config, CheckpointRefuses,
    ::testing::Values(
        config("UnknownFamily", "olmoe", "model_type", "gpt2", Code::UnknownFamily),
        config("FamilyIsNoText", "olmoe", "model_type", 3, Code::DocumentMalformed),
        config("MoreChoicesThanExperts", "olmoe", "num_experts_per_tok", 17,
               Code::TopKExceedsExperts),
        config("NoChoice", "olmoe", "num_experts_per_tok", 0, Code::InvalidValue),
        config("NoExperts", "mixtral", "num_local_experts", 0, Code::InvalidValue),
        config("ExpertsIsText", "mixtral", "num_local_experts", "8", Code::DocumentMalformed),
        config("ExpertsIsAFraction", "mixtral", "num_local_experts", 8.5, Code::DocumentMalformed),
        config("ExpertsBeyondAnyModel", "mixtral", "num_local_experts", 1'000'000'000'000,
               Code::InvalidValue),
        config("ExpertsUnderTwoNamesThatDisagree", "qwen3_moe", "num_experts", 15,
               Code::InvalidValue, "num_local_experts"),
        config("NegativeWidth", "qwen3_moe", "moe_intermediate_size", -48, Code::InvalidValue),
        config("WidthBeyondAnyModel", "qwen3_moe", "hidden_size", 1U << 31U, Code::InvalidValue),
        config("LayersBeyondAnyModel", "qwen3_moe", "num_hidden_layers", 1'000'000,
               Code::InvalidValue),
        config("NoLayers", "qwen3_moe", "num_hidden_layers", 0, Code::InvalidValue),
        config("AllLayersDense", "deepseek_v3", "first_k_dense_replace", 3, Code::InvalidValue,
               "num_hidden_layers"),
        config("OtherActivation", "gpt_oss", "hidden_act", "gelu", Code::InvalidValue),
        config("OtherScores", "deepseek_v3", "scoring_func", "softmax", Code::InvalidValue),
        config("OtherChoice", "deepseek_v3", "topk_method", "greedy", Code::InvalidValue),
        config("UnequalGroups", "deepseek_v3", "n_group", 5, Code::InvalidValue),
        config("GroupsOfOne", "deepseek_v3", "n_group", 16, Code::InvalidValue),
        config("MoreGroupsThanExist", "deepseek_v3", "topk_group", 5, Code::InvalidValue),
        config("GroupsHoldTooFewExperts", "deepseek_v3", "num_experts_per_tok", 9,
               Code::InvalidValue, "topk_group"),
        config("NegativeScale", "deepseek_v3", "routed_scaling_factor", -2.5, Code::InvalidValue),
        config("ScaleBeyondFloat", "deepseek_v3", "routed_scaling_factor", 1e300,
               Code::InvalidValue),
        config("ScaleIsText", "deepseek_v3", "routed_scaling_factor", "inf",
               Code::DocumentMalformed),
        config("RenormalisationIsNoFlag", "olmoe", "norm_topk_prob", 1, Code::DocumentMalformed),
        config("DenseLayerThatDoesNotExist", "qwen3_moe", "mlp_only_layers", {2},
               Code::InvalidValue, "mlp_only_layers[0]"),
        config("StepOfZero", "qwen3_moe", "decoder_sparse_step", 0, Code::InvalidValue),
        config("QuantisedWeights", "deepseek_v3", "quantization_config", {{"quant_method", "fp8"}},
               Code::DtypeMismatch, "quantization_config.quant_method"),
        config("NullWhereAValueIsNeeded", "mixtral", "hidden_size", nullptr, Code::MissingField),
        config("UnknownChoice", "deepseek_v2", "topk_method", "noaux_tc", Code::InvalidValue),
        config("SigmoidScores", "deepseek_v2", "scoring_func", "sigmoid", Code::InvalidValue),
        config("BiasedSharedExperts", "deepseek_v2", "mlp_bias", true, Code::InvalidValue),
        config("UnequalGroupsOfV2", "deepseek_v2", "n_group", 5, Code::InvalidValue),
        config("SoftmaxScores", "glm4_moe", "scoring_func", "softmax", Code::InvalidValue),
        config("GroupsOfOneAreNoPair", "dots1", "n_group", 12, Code::InvalidValue),
        config("ThreeChoicesOfSparsemixer", "phimoe", "num_experts_per_tok", 3, Code::InvalidValue),
        config("NegativeJitter", "phimoe", "router_jitter_noise", -0.01, Code::InvalidValue),
        config("RoutingWithoutBias", "minimax_m2", "use_routing_bias", false, Code::InvalidValue),
        config("BiasedExperts", "ernie4_5_moe", "use_bias", true, Code::InvalidValue),
        config("NegativeFloor", "ernie4_5_moe", "moe_norm_min", -1, Code::InvalidValue),
        config("IntervalOfZero", "ernie4_5_moe", "moe_layer_interval", 0, Code::InvalidValue),
        config("EndBeforeTheFirstLayer", "ernie4_5_moe", "moe_layer_end_index", -2,
               Code::InvalidValue),
        config("NoLayerInTheInterval", "ernie4_5_moe", "moe_layer_start_index", 4,
               Code::InvalidValue, "num_hidden_layers"),
        config("ListedLayerThatDoesNotExist", "llama4_text", "moe_layers", {2}, Code::InvalidValue,
               "moe_layers[0]"),
        config("NoListedLayer", "llama4_text", "moe_layers", nlohmann::json::array(),
               Code::InvalidValue, "num_hidden_layers")),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    MissingFields, CheckpointRefuses,
    ::testing::Values(without("Family", "mixtral", "model_type"),
                      without("Hidden", "mixtral", "hidden_size"),
                      without("Layers", "mixtral", "num_hidden_layers"),
                      without("Experts", "mixtral", "num_local_experts"),
                      without("Width", "olmoe", "intermediate_size"),
                      without("Choices", "gpt_oss", "num_experts_per_tok"),
                      without("Groups", "deepseek_v3", "n_group"),
                      without("GroupsOfV2", "deepseek_v2", "n_group"),
                      without("SharedWidth", "qwen2_moe", "shared_expert_intermediate_size"),
                      without("SharedExperts", "deepseek_v3", "n_shared_experts")),
    name_of);

Damage tensor(const char* fault, const char* family, const char* name, DType dtype,
              std::vector<std::int64_t> shape, Code code) {
  const auto edit = [=](EditableCheckpoint& checkpoint) { checkpoint.replace(name, dtype, shape); };
  return {fault, family, edit, code, "model.safetensors", "tensor", name};
}

INSTANTIATE_TEST_SUITE_P(
    Tensors, CheckpointRefuses,
    ::testing::Values(
        tensor("TransposedExpert", "mixtral", "model.layers.1.block_sparse_moe.experts.7.w2.weight",
               DType::bf16, {96, 64}, Code::ShapeMismatch),
        tensor("NarrowExpert", "qwen3_moe", "model.layers.0.mlp.experts.3.up_proj.weight",
               DType::bf16, {47, 64}, Code::ShapeMismatch),
        tensor("FlatExpert", "qwen3_moe", "model.layers.0.mlp.experts.3.up_proj.weight",
               DType::bf16, {48 * 64}, Code::ShapeMismatch),
        tensor("TooFewStackedExperts", "gpt_oss", "model.layers.0.mlp.experts.gate_up_proj",
               DType::bf16, {7, 64, 128}, Code::ShapeMismatch),
        tensor("ShortBias", "gpt_oss", "model.layers.1.mlp.experts.down_proj_bias", DType::bf16,
               {8, 63}, Code::ShapeMismatch),
        tensor("RouterOfAnotherWidth", "olmoe", "model.layers.1.mlp.gate.weight", DType::bf16,
               {16, 65}, Code::ShapeMismatch),
        tensor("ShortSelectionBias", "deepseek_v3",
               "model.layers.2.mlp.gate.e_score_correction_bias", DType::f32, {15},
               Code::ShapeMismatch),
        tensor("WideSharedExpert", "deepseek_v3",
               "model.layers.1.mlp.shared_experts.gate_proj.weight", DType::bf16, {80, 64},
               Code::ShapeMismatch),
        tensor("FlatSelectionBias", "ernie4_5_moe",
               "model.layers.1.mlp.moe_statics.e_score_correction_bias", DType::bf16, {12},
               Code::ShapeMismatch),
        tensor("SharedGateOfTwoRows", "qwen2_moe", "model.layers.0.mlp.shared_expert_gate.weight",
               DType::bf16, {2, 64}, Code::ShapeMismatch),
        tensor("StackedExpertsOfAnotherOrder", "llama4_text",
               "model.layers.1.feed_forward.experts.gate_up_proj", DType::bf16, {8, 96, 64},
               Code::ShapeMismatch),
        tensor("Fp8Expert", "deepseek_v3", "model.layers.1.mlp.experts.2.down_proj.weight",
               DType::f8_e4m3, {64, 40}, Code::DtypeMismatch),
        tensor("DoubleRouter", "olmoe", "model.layers.0.mlp.gate.weight", DType::f64, {16, 64},
               Code::DtypeMismatch)),
    name_of);

TEST(CheckpointMissingTensor, ListsExactlyWhatIsMissingAndWhatIsUnused) {
  const TemporaryFolder folder;
  EditableCheckpoint checkpoint = EditableCheckpoint::shipped("olmoe");
  checkpoint.tensors.erase("model.layers.0.mlp.gate.weight");
  checkpoint.tensors.erase("model.layers.1.mlp.experts.7.down_proj.weight");
  checkpoint.rename("model.layers.1.mlp.experts.9.up_proj.weight",
                    "model.layers.1.mlp.experts.9.w3.weight");
  checkpoint.write(folder.path());
  const Error error = fault([&] { Checkpoint::open(folder.path()); });
  EXPECT_EQ(error.code(), Code::MissingTensor);
  EXPECT_EQ(error.coordinate("file"), folder.path());
  EXPECT_EQ(error.coordinate("tensors"),
            "model.layers.0.mlp.gate.weight, model.layers.1.mlp.experts.9.up_proj.weight, "
            "model.layers.1.mlp.experts.7.down_proj.weight");
  EXPECT_NE(std::string(error.what()).find("model.layers.1.mlp.experts.9.w3.weight"),
            std::string::npos);
}

TEST(CheckpointMissingTensor, ListsAStackedTensorOnce) {
  const TemporaryFolder folder;
  EditableCheckpoint checkpoint = EditableCheckpoint::shipped("gpt_oss");
  checkpoint.tensors.erase("model.layers.1.mlp.experts.gate_up_proj_bias");
  checkpoint.write(folder.path());
  const Error error = fault([&] { Checkpoint::open(folder.path()); });
  EXPECT_EQ(error.coordinate("tensors"), "model.layers.1.mlp.experts.gate_up_proj_bias");
}

TEST(CheckpointMissingTensor, FindsAWholeMissingExpert) {
  const TemporaryFolder folder;
  EditableCheckpoint checkpoint = EditableCheckpoint::shipped("qwen3_moe");
  checkpoint.config["num_local_experts"] = 17;
  checkpoint.replace("model.layers.0.mlp.gate.weight", DType::bf16, {17, 64});
  checkpoint.replace("model.layers.1.mlp.gate.weight", DType::bf16, {17, 64});
  checkpoint.write(folder.path());
  const Error error = fault([&] { Checkpoint::open(folder.path()); });
  EXPECT_EQ(error.code(), Code::MissingTensor);
  std::string wanted;
  for (const int layer : {0, 1}) {
    for (const char* projection : {"gate", "up", "down"}) {
      wanted += fmt::format("{}model.layers.{}.mlp.experts.16.{}_proj.weight",
                            wanted.empty() ? "" : ", ", layer, projection);
    }
  }
  EXPECT_EQ(error.coordinate("tensors"), wanted);
}

// One layer's experts as the library keeps them, one as published: neither layout is whole.
TEST(CheckpointMissingTensor, IsOfTheLayoutThatMostExpertsFollow) {
  const TemporaryFolder folder;
  EditableCheckpoint checkpoint = EditableCheckpoint::shipped("olmoe");
  std::erase_if(checkpoint.tensors, [](const auto& tensor) {
    return tensor.first.starts_with("model.layers.1.mlp.experts.");
  });
  checkpoint.tensors["model.layers.1.mlp.experts.gate_up_proj"] = {
      DType::bf16, {16, 96, 64}, std::vector<std::byte>(16 * 96 * 64 * 2)};
  checkpoint.tensors["model.layers.1.mlp.experts.down_proj"] = {
      DType::bf16, {16, 64, 48}, std::vector<std::byte>(16 * 64 * 48 * 2)};
  checkpoint.write(folder.path());
  const Error error = fault([&] { Checkpoint::open(folder.path()); });
  EXPECT_EQ(error.code(), Code::MissingTensor);
  EXPECT_TRUE(std::string(error.coordinate("tensors"))
                  .starts_with("model.layers.1.mlp.experts.0.gate_proj.weight, "));
  EXPECT_NE(std::string(error.what()).find("experts.gate_up_proj"), std::string::npos);
}

TEST(CheckpointInventory, ListsUnusedTensorsOfMoeBlocksAlone) {
  const TemporaryFolder folder;
  EditableCheckpoint checkpoint = EditableCheckpoint::shipped("deepseek_v3");
  const auto copy = [&](const std::string& name) {
    checkpoint.tensors[name] = checkpoint.tensors.at("model.layers.1.mlp.gate.weight");
  };
  copy("model.layers.1.mlp.experts.16.gate_proj.weight");
  copy("model.layers.2.mlp.extra");
  copy("model.layers.0.mlp.extra");                       // a dense layer
  copy("model.layers.3.mlp.experts.0.gate_proj.weight");  // predicts a further token
  copy("model.layers.1.mlp_norm.weight");                 // beside the block
  checkpoint.write(folder.path());
  const Checkpoint opened = Checkpoint::open(folder.path());
  EXPECT_EQ(opened.inventory().unused,
            (std::vector<std::string>{"model.layers.1.mlp.experts.16.gate_proj.weight",
                                      "model.layers.2.mlp.extra"}));
  EXPECT_TRUE(opened.inventory().missing.empty());
  EXPECT_EQ(opened.inventory().expert_tensors, 2U * 17U * 3U);
}

TEST(CheckpointFiles, AreNamedWhenTheyAreMissing) {
  const TemporaryFolder folder;
  const Error config = fault([&] { Checkpoint::open(folder.path()); });
  EXPECT_EQ(config.code(), Code::FileUnreadable);
  EXPECT_EQ(config.coordinate("file"), folder.file("config.json"));

  EditableCheckpoint::shipped("olmoe").write_config(folder.path());
  const Error weights = fault([&] { Checkpoint::open(folder.path()); });
  EXPECT_EQ(weights.code(), Code::FileUnreadable);
  EXPECT_EQ(weights.coordinate("file"), folder.file("model.safetensors"));
}

TEST(CheckpointFiles, RefuseAFieldThatStandsTwice) {
  const TemporaryFolder folder;
  folder.write("config.json", R"({"model_type": "olmoe", "num_experts": 8, "num_experts": 16})");
  const Error error = fault([&] { Checkpoint::open(folder.path()); });
  EXPECT_EQ(error.code(), Code::DuplicateKey);
  EXPECT_EQ(error.coordinate("field"), "num_experts");
}

TEST(CheckpointAccess, RefusesLayersAndExpertsThatItDoesNotHold) {
  const Checkpoint checkpoint =
      Checkpoint::open(std::string(WAYBILL_TEST_DATA) + "/checkpoints/deepseek_v3");
  for (const std::int32_t layer : {-1, 0, 3}) {
    const Error error = fault([&] { checkpoint.router(LayerId(layer)); });
    EXPECT_EQ(error.code(), Code::InvalidValue);
    EXPECT_EQ(error.coordinate("layer"), std::to_string(layer));
  }
  for (const std::int32_t expert : {-1, 16}) {
    const Error error = fault([&] { checkpoint.expert(LayerId(1), ExpertId(expert)); });
    EXPECT_EQ(error.code(), Code::ExpertIdOutOfRange);
    EXPECT_EQ(error.found_text(), std::to_string(expert));
  }
}

}  // namespace
}  // namespace waybill
