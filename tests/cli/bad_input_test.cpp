// Input on which a run must not start: every kind ends with its code, the names of file, field and
// value on stderr, exit status 2 and nothing on stdout.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/broken_checkpoint.h"
#include "cli/process.h"

namespace waybill::testing {
namespace {

using Json = nlohmann::ordered_json;

struct Fault {
  const char* name;
  std::function<void(const BrokenCheckpoint&)> make;
  const char* code;
  std::vector<std::string> named;      // must stand in the message
  std::vector<std::string> options{};  // more of the command line
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

const std::string w1 = "model.layers.1.block_sparse_moe.experts.5.w1.weight";
const std::string last = "model.norm.weight";  // bytes 657,920 to 658,048, the end of the file

std::function<void(const BrokenCheckpoint&)> header(const BrokenCheckpoint::Edit& edit) {
  return [edit](const BrokenCheckpoint& broken) { broken.edit_header(broken.weights(), edit); };
}

std::function<void(const BrokenCheckpoint&)> config(const BrokenCheckpoint::Edit& edit) {
  return [edit](const BrokenCheckpoint& broken) { broken.edit_config(edit); };
}

void nothing(const BrokenCheckpoint&) {}

// A manifest of the 8 experts of mixtral over 2 ranks, with `change` made to it.
std::function<void(const BrokenCheckpoint&)> placement(const std::function<void(Json&)>& change) {
  return [change](const BrokenCheckpoint& broken) {
    Json slots = Json::array();
    for (int e = 0; e < 8; ++e) {
      slots.push_back({{"logical_expert_id", e}, {"destination_rank", e / 4}});
    }
    slots.push_back({{"logical_expert_id", 0}, {"destination_rank", 1}});
    Json manifest = {{"placement_version", "p"}, {"slots", slots}};
    change(manifest);
    std::ofstream(broken.path() + "/placement.json") << manifest;
  };
}

const std::vector<std::string> placed{"--ranks", "2", "--placement", "placement.json"};

const std::vector<Fault> faults{
    {"NoDirectory",
     [](const BrokenCheckpoint& broken) { std::filesystem::remove(broken.config()); },
     "FileUnreadable",
     {"config.json"}},
    {"NoWeights",
     [](const BrokenCheckpoint& broken) { std::filesystem::remove(broken.weights()); },
     "FileUnreadable",
     {"model.safetensors"}},
    {"TruncatedWeights",
     [](const BrokenCheckpoint& broken) {
       std::filesystem::resize_file(broken.weights(), 300'000);
     },
     "FileTruncated",
     {"model.safetensors"}},
    {"TruncatedHeader",
     [](const BrokenCheckpoint& broken) { std::filesystem::resize_file(broken.weights(), 5); },
     "FileTruncated",
     {"model.safetensors"}},
    {"HeaderOfALyingLength",
     [](const BrokenCheckpoint& broken) {
       broken.overwrite(broken.weights(), 0, std::string("\xff\xff\xff\x7f\0\0\0\0", 8));
     },
     "HeaderTooLarge",
     {"model.safetensors", "2147483647"}},
    {"HeaderIsNoJson",
     [](const BrokenCheckpoint& broken) { broken.replace_header("{\"a\": "); },
     "HeaderMalformed",
     {"model.safetensors"}},
    {"TensorNamedTwice",
     [](const BrokenCheckpoint& broken) {
       const std::string entry = R"("t": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]})";
       broken.replace_header("{" + entry + ", " + entry + "}");
     },
     "DuplicateKey",
     {"model.safetensors", "t"}},
    {"TensorOutsideTheFile",
     header([](Json& tensors) {
       tensors[last]["data_offsets"] = {662'016, 662'144};
     }),
     "TensorOutsideFile",
     {last}},
    {"TensorsThatOverlap",
     header([](Json& tensors) {
       tensors[last]["data_offsets"] = {657'856, 657'984};
     }),
     "TensorOverlap",
     {last}},
    {"UnknownDtype",
     header([](Json& tensors) { tensors[w1]["dtype"] = "BF17"; }),
     "UnknownDtype",
     {w1, "BF17"}},
    {"WrongShape",
     header([](Json& tensors) {
       tensors[w1]["shape"] = {64, 96};
     }),
     "ShapeMismatch",
     {w1, "[96, 64]", "[64, 96]"}},
    {"MissingExpert",
     header([](Json& tensors) {
       tensors["unrelated"] = tensors[w1];
       tensors.erase(w1);
     }),
     "MissingTensor",
     {w1}},
    {"ConfigIsNoJson",
     [](const BrokenCheckpoint& broken) { broken.overwrite(broken.config(), 0, "x"); },
     "DocumentMalformed",
     {"config.json"}},
    {"UnknownFamily",
     config([](Json& c) { c["model_type"] = "mixtrel"; }),
     "UnknownFamily",
     {"config.json", "model_type", "mixtrel"}},
    {"NoFamily",
     config([](Json& c) { c.erase("model_type"); }),
     "MissingField",
     {"config.json", "model_type"}},
    {"MissingField",
     config([](Json& c) { c.erase("hidden_size"); }),
     "MissingField",
     {"config.json", "hidden_size"}},
    {"NegativeSize",
     config([](Json& c) { c["hidden_size"] = -64; }),
     "InvalidValue",
     {"config.json", "hidden_size", "-64"}},
    {"TextForANumber",
     config([](Json& c) { c["hidden_size"] = "64"; }),
     "DocumentMalformed",
     {"config.json", "hidden_size"}},
    {"MoreChosenThanThereAre",
     config([](Json& c) { c["num_experts_per_tok"] = 9; }),
     "TopKExceedsExperts",
     {"config.json", "num_experts_per_tok", "9"}},
    {"NoRanks", nothing, "InvalidValue", {"--ranks", "0"}, {"--ranks", "0"}},
    {"MoreRanksThanSlots", nothing, "TooManyRanks", {"9", "8"}, {"--ranks", "9"}},
    {"NodesThatDoNotDivide", nothing, "InvalidValue", {"3"}, {"--ranks", "4", "--nodes", "3"}},
    {"PeerOrderWithARankTwice",
     nothing,
     "PeerOrderInvalid",
     {"--peer-order", "0,1,1,3"},
     {"--peer-order", "0,1,1,3"}},
    {"PeerOrderWithARankLess",
     nothing,
     "PeerOrderInvalid",
     {"--peer-order", "0,1,2"},
     {"--peer-order", "0,1,2"}},
    {"PeerOrderOfWords", nothing, "InvalidValue", {"--peer-order", "b"}, {"--peer-order", "a,b"}},
    {"NegativeTokens", nothing, "InvalidValue", {"--tokens", "-1"}, {"--tokens", "-1"}},
    {"LayerWithoutExperts", nothing, "InvalidValue", {"--layers", "2"}, {"--layers", "0,2"}},
    {"NoSuchPlacement", nothing, "FileUnreadable", {"placement.json"}, placed},
    {"ExpertWithoutASlot",
     placement([](Json& m) { m["slots"].erase(3); }),
     "ReplicaCardinalityZero",
     {"placement.json", "3"},
     placed},
    {"ReplicaWithAnotherDigest",
     placement([](Json& m) {
       m["slots"][0]["parameter_digest"] = "digest-a";
       m["slots"][8]["parameter_digest"] = "digest-b";
     }),
     "ParameterDigestMismatch",
     {"placement.json", "digest-a", "digest-b"},
     placed},
    {"ReplicaOfAnotherCheckpoint",
     placement([](Json& m) {
       m["slots"][0]["checkpoint_version"] = "checkpoint-41";
       m["slots"][8]["checkpoint_version"] = "checkpoint-42";
     }),
     "CheckpointMismatch",
     {"placement.json", "checkpoint-41", "checkpoint-42"},
     placed},
    {"SlotOnARankThatIsNotThere",
     placement([](Json& m) { m["slots"][0]["destination_rank"] = 2; }),
     "DestinationRankMismatch",
     {"placement.json", "2"},
     placed},
    {"SlotOfAnExpertThatIsNotThere",
     placement([](Json& m) { m["slots"][0]["logical_expert_id"] = 8; }),
     "LogicalExpertMismatch",
     {"placement.json", "8"},
     placed},
    {"SlotNamedTwice",
     placement([](Json& m) {
       m["slots"][0]["physical_slot_id"] = "q7x";
       m["slots"][1]["physical_slot_id"] = "q7x";
     }),
     "DuplicateSlotId",
     {"placement.json", "q7x"},
     placed},
    {"PlacementForOtherRanks",
     placement([](Json& m) { m["ranks"] = 4; }),
     "RankCountMismatch",
     {"placement.json", "4", "2"},
     placed},
    {"PlacementForAnotherModel",
     placement([](Json& m) { m["logical_experts"] = 16; }),
     "LogicalCountMismatch",
     {"placement.json", "16", "8"},
     placed},
    {"NoSuchRecording",
     [](const BrokenCheckpoint& broken) { std::filesystem::remove(broken.golden()); },
     "FileUnreadable",
     {"golden.safetensors"},
     {"--golden", "."}},
    {"RecordingOfAnotherModel",
     [](const BrokenCheckpoint& broken) {
       broken.edit_header(broken.golden(), [](Json& tensors) {
         Json renamed;
         for (const auto& [name, tensor] : tensors.items()) {
           if (name != "__metadata__") renamed["other." + name] = tensor;
         }
         tensors = renamed;
       });
     },
     "MissingTensor",
     {"golden.safetensors", "model.layers.0.mlp.block_in"},
     {"--golden", "."}},
    {"RecordingOfAnotherWidth",
     [](const BrokenCheckpoint& broken) {
       broken.edit_header(broken.golden(), [](Json& tensors) {
         tensors["model.layers.1.mlp.experts_out"]["shape"] = {48, 32};
       });
     },
     "ShapeMismatch",
     {"golden.safetensors", "model.layers.1.mlp.experts_out", "[48, 32]"},
     {"--golden", "."}},
};

class BadInput : public ::testing::TestWithParam<Fault> {};

TEST_P(BadInput, IsRefusedWithItsName) {
  const Fault& fault = GetParam();
  const BrokenCheckpoint broken("mixtral");
  fault.make(broken);
  std::vector<std::string> arguments{"run", broken.path()};
  for (const std::string& option : fault.options) {
    const bool file = option == "." || option.ends_with(".json");
    arguments.push_back(file ? broken.path() + "/" + option : option);
  }
  const Finished text = execute(WAYBILL_COMMAND, arguments);
  EXPECT_EQ(text.exit, 2) << text.err;
  EXPECT_TRUE(text.out.empty()) << text.out;
  EXPECT_EQ(text.err.rfind("waybill: " + std::string(fault.code) + ":", 0), 0U) << text.err;
  for (const std::string& word : fault.named) {
    EXPECT_NE(text.err.find(word), std::string::npos) << word << " in " << text.err;
  }
  arguments.emplace_back("--json");
  EXPECT_EQ(execute(WAYBILL_COMMAND, arguments).json()["error"]["code"], fault.code);
}

INSTANTIATE_TEST_SUITE_P(Run, BadInput, ::testing::ValuesIn(faults),
                         [](const auto& fault) { return std::string(fault.param.name); });

}  // namespace
}  // namespace waybill::testing
