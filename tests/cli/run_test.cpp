#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/broken_checkpoint.h"
#include "cli/process.h"
#include "io/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace waybill::testing {
namespace {

std::string checkpoint(const std::string& family) {
  return std::string(WAYBILL_TEST_DATA) + "/checkpoints/" + family;
}

Finished run(const std::string& directory, std::vector<std::string> options) {
  std::vector<std::string> arguments{"run", directory};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return execute(WAYBILL_COMMAND, arguments);
}

nlohmann::json report(const std::string& family, std::vector<std::string> options) {
  options.emplace_back("--json");
  const Finished finished = run(checkpoint(family), std::move(options));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  return finished.json();
}

class Families : public ::testing::TestWithParam<const char*> {};

TEST_P(Families, F32MatchesTheRecordingAndTheDirectEvaluation) {
  const auto json =
      report(GetParam(), {"--ranks", "4", "--check", "--golden", checkpoint(GetParam())});
  EXPECT_LE(json["max_rel_error"].get<double>(), 5e-6);
  EXPECT_TRUE(json["violations"].empty());
  for (const auto& layer : json["layers"]) {
    EXPECT_EQ(layer["golden"]["tokens"], 24);
    EXPECT_EQ(layer["golden"]["topk_differs"], 0);
    EXPECT_EQ(layer["check"]["tokens"], 64);
  }
}

TEST_P(Families, Bf16StaysWithinOnePercentOfTheRecording) {
  const auto json = report(GetParam(), {"--dtype", "bf16", "--check", "--golden",
                                        checkpoint(GetParam()) + "/golden.json"});
  EXPECT_LE(json["rel_frobenius"].get<double>(), 1e-2);
  EXPECT_TRUE(json["violations"].empty());
}

INSTANTIATE_TEST_SUITE_P(Run, Families,
                         ::testing::Values("deepseek_v2", "deepseek_v3", "dots1", "ernie4_5_moe",
                                           "glm4_moe", "gpt_oss", "granitemoe", "llama4_text",
                                           "minimax_m2", "mixtral", "olmoe", "phimoe", "qwen2_moe",
                                           "qwen3_moe"));

TEST(Run, OutputHashDoesNotDependOnHowTheWorkIsSpread) {
  const TemporaryFolder folder;
  const std::string placement = folder.write("placement.json", R"({
    "placement_version": "replicated",
    "experts_by_rank": [[0, 1, 2, 3, 15], [4, 5, 6, 7, 0], [8, 9, 10, 11, 0, 5], [12, 13, 14, 15]]
  })");
  const std::vector<std::vector<std::string>> ways{
      {"--ranks", "2"},
      {"--ranks", "3", "--peer-order", "2,0,1"},
      {"--ranks", "4", "--nodes", "2", "--selector", "locality", "--placement", placement},
      {"--ranks", "4", "--selector", "least_load", "--placement", placement, "--dedup"},
      {"--ranks", "4", "--selector", "round_robin", "--placement", placement},
      {"--ranks", "4", "--selector", "hash", "--placement", placement, "--checks", "full"},
      {"--ranks", "8", "--peer-order", "random", "--seed", "7"},
  };
  for (const char* dtype : {"f32", "bf16"}) {
    const auto hash = [&](std::vector<std::string> options) {
      // The peer order may use the seed, so the rows get theirs from a fixed one.
      if (std::find(options.begin(), options.end(), "--seed") == options.end()) {
        options.insert(options.end(), {"--seed", "7"});
      }
      options.insert(options.end(), {"--tokens", "37", "--dtype", dtype});
      return report("qwen3_moe", options)["output_sha256"].get<std::string>();
    };
    const std::string alone = hash({"--ranks", "1"});
    EXPECT_EQ(alone.size(), 64U);
    for (const auto& way : ways) EXPECT_EQ(hash(way), alone) << way[1] << " ranks";
  }
}

TEST(Run, JsonHasTheDocumentedFields) {
  const auto json = report("deepseek_v3", {"--tokens", "10", "--ranks", "4"});
  EXPECT_TRUE(json["max_rel_error"].is_null());  // nothing was compared
  EXPECT_EQ(json["model"]["family"], "deepseek_v3");
  EXPECT_EQ(json["rank_tokens"], nlohmann::json::parse("[3, 3, 2, 2]"));
  ASSERT_EQ(json["layers"].size(), 2U);  // the dense first layer is not among them
  const auto& layer = json["layers"][0];
  EXPECT_EQ(layer["layer"], 1);
  EXPECT_EQ(layer["rows"]["tokens"], 10);
  EXPECT_EQ(layer["rows"]["routes"], 40);
  EXPECT_EQ(layer["rows"]["local"].get<int>() + layer["rows"]["remote"].get<int>(), 40);
  EXPECT_GT(layer["live_bytes"]["peak"].get<int>(), 0);
  EXPECT_GT(layer["measured"]["total_ns"].get<int>(), 0);
  EXPECT_GT(layer["measured"]["load_ns"].get<int>(), 0);
}

TEST(Run, RanksWithoutTokensTakePart) {
  EXPECT_EQ(report("mixtral", {"--tokens", "3", "--ranks", "4"})["rank_tokens"],
            nlohmann::json::parse("[1, 1, 1, 0]"));
  const auto none = report("mixtral", {"--tokens", "0", "--ranks", "4", "--check"});
  EXPECT_EQ(none["layers"][0]["rows"]["routes"], 0);
}

TEST(Run, ChosenLayersAlone) {
  const auto json = report("deepseek_v3", {"--layers", "2"});
  ASSERT_EQ(json["layers"].size(), 1U);
  EXPECT_EQ(json["layers"][0]["layer"], 2);
}

TEST(Run, DedupSendsARowOncePerTokenAndRank) {
  const auto rows = report("olmoe", {"--ranks", "2", "--dedup"})["layers"][0]["rows"];
  EXPECT_EQ(rows["routes"], 512);
  EXPECT_LE(rows["payload"].get<int>(), 128);
}

TEST(Run, ReportFitsEightyColumnsAndNamesTheVerdict) {
  const Finished finished =
      run(checkpoint("qwen3_moe"), {"--check", "--golden", checkpoint("qwen3_moe")});
  EXPECT_EQ(finished.exit, 0);
  EXPECT_LE(longest_line(finished.out), 80U) << finished.out;
  EXPECT_NE(finished.out.find("verdict     right"), std::string::npos) << finished.out;
  EXPECT_TRUE(finished.err.empty()) << finished.err;
}

TEST(Run, WithoutRowsNothingIsCompared) {
  const Finished text = run(checkpoint("qwen3_moe"), {"--tokens", "0", "--check"});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_NE(text.out.find("verdict     not compared"), std::string::npos) << text.out;
  const Finished none = run(checkpoint("qwen3_moe"), {"--tokens", "0", "--check", "--json"});
  EXPECT_TRUE(none.json()["max_rel_error"].is_null());
  EXPECT_EQ(none.json()["compared_rows"], 0);
  EXPECT_TRUE(none.json()["layers"][0]["check"]["block_out"]["max_rel_error"].is_null());

  const BrokenCheckpoint broken("qwen3_moe");
  const std::string block = "model.layers.0.mlp";
  SafetensorsWriter empty(broken.golden(), {{block + ".block_in", DType::f32, {0, 64}},
                                            {block + ".experts_in.arg1", DType::i64, {0, 4}},
                                            {block + ".experts_out", DType::f32, {0, 64}},
                                            {block + ".block_out", DType::f32, {0, 64}}});
  empty.finish();
  const Finished golden = run(broken.path(), {"--golden", broken.golden(), "--json"});
  EXPECT_EQ(golden.exit, 0) << golden.err;
  EXPECT_TRUE(golden.json()["max_rel_error"].is_null());
  EXPECT_TRUE(golden.json()["layers"][0]["golden"]["experts_out"]["max_rel_error"].is_null());
}

TEST(Run, ARecordedBlockThatTheModelLacksIsRefused) {
  const BrokenCheckpoint broken("mixtral");
  broken.edit_header(broken.golden(), [](nlohmann::ordered_json& tensors) {
    nlohmann::ordered_json renamed;
    for (const auto& [name, tensor] : tensors.items()) {
      const std::size_t at = name.find("layers.1.");
      renamed[at == std::string::npos ? name : std::string(name).replace(at, 9, "layers.9.")] =
          tensor;
    }
    tensors = renamed;
  });
  const Finished finished = run(broken.path(), {"--golden", broken.golden(), "--json"});
  EXPECT_EQ(finished.exit, 2);
  EXPECT_EQ(finished.json()["error"]["code"], "InvalidValue");
  EXPECT_EQ(finished.json()["error"]["where"]["tensor"], "model.layers.9.mlp.block_in");
}

TEST(Run, AnErrorThatIsNotFiniteIsNull) {
  const BrokenCheckpoint broken("mixtral");
  const std::string tensor = "model.layers.1.mlp.experts_out";
  broken.overwrite(broken.golden(), broken.offset_of(broken.golden(), tensor), "\xff\xff\xff\x7f");
  const Finished finished = run(broken.path(), {"--golden", broken.golden(), "--json"});
  EXPECT_EQ(finished.exit, 1);
  const auto json = finished.json();
  EXPECT_TRUE(json["max_rel_error"].is_null());
  EXPECT_EQ(json["finite"], false);
  EXPECT_EQ(json["compared_rows"], 48);
  EXPECT_EQ(json["layers"][0]["golden"]["experts_out"]["finite"], true);
}

TEST(Run, ADifferentRecordingIsAViolation) {
  const BrokenCheckpoint broken("mixtral");
  const std::string tensor = "model.layers.1.mlp.experts_out";
  const std::string one("\0\0\x80\x3f", 4);
  broken.overwrite(broken.golden(), broken.offset_of(broken.golden(), tensor), one);
  const Finished finished = run(broken.path(), {"--golden", broken.golden(), "--json"});
  EXPECT_EQ(finished.exit, 1);
  const auto violations = finished.json()["violations"];
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations[0]["code"], "CombineMismatch");
  EXPECT_EQ(violations[0]["where"]["layer"], "1");
  EXPECT_EQ(violations[0]["where"]["tensor"], "experts_out");

  const Finished text = run(broken.path(), {"--golden", broken.golden()});
  EXPECT_EQ(text.exit, 1);
  EXPECT_NE(text.out.find("WRONG"), std::string::npos);
  EXPECT_LE(longest_line(text.out), 80U) << text.out;
}

}  // namespace
}  // namespace waybill::testing
