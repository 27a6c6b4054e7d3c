// What must not end well: damaged weights under --check, a pipe for a file, a report that is lost.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "cli/broken_checkpoint.h"
#include "cli/process.h"
#include "support/temporary_folder.h"

namespace waybill::testing {
namespace {

const std::string command = WAYBILL_COMMAND;
const std::string expert = "model.layers.1.mlp.experts.3.down_proj.weight";

TEST(Hostile, AnExpertOfNaNsPassesNoCheck) {
  const BrokenCheckpoint broken("qwen3_moe");
  std::string nans;
  for (int i = 0; i < 64 * 48; ++i) nans += "\xc0\x7f";  // bf16 quiet NaN, little-endian
  broken.overwrite(broken.weights(), broken.offset_of(broken.weights(), expert), nans);
  const Finished run = execute(command, {"run", broken.path(), "--check", "--json"});
  EXPECT_EQ(run.exit, 1);
  EXPECT_FALSE(run.json().at("violations").empty());
}

TEST(Hostile, ARouterOfNaNsIsNamedWithLayerAndFile) {
  const BrokenCheckpoint broken("qwen3_moe");
  std::string nans;
  for (int i = 0; i < 64; ++i) nans += "\xc0\x7f";
  broken.overwrite(broken.weights(),
                   broken.offset_of(broken.weights(), "model.layers.1.mlp.gate.weight"), nans);
  for (const char* subcommand : {"run", "plan"}) {
    const Finished finished = execute(command, {subcommand, broken.path(), "--json"});
    EXPECT_EQ(finished.exit, 2) << subcommand;
    const auto error = finished.json().at("error");
    EXPECT_EQ(error.at("code"), "GateNotFinite");
    EXPECT_EQ(error.at("where").at("layer"), "1");
    EXPECT_EQ(error.at("where").at("file"), broken.path());
  }
}

TEST(Hostile, APipeInPlaceOfADocumentIsRefusedAtOnce) {
  const BrokenCheckpoint broken("qwen3_moe");
  const std::string pipe = broken.path() + "/pipe.json";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const Finished run = execute(command, {"run", broken.path(), "--placement", pipe});
  EXPECT_EQ(run.exit, 2);
  EXPECT_NE(run.err.find("FileUnreadable"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("pipe.json"), std::string::npos) << run.err;
}

// Whether a running command has mapped `file`.
bool is_mapped(const std::string& file) {
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    std::ifstream command_line(process.path() / "cmdline");
    const std::string words((std::istreambuf_iterator<char>(command_line)), {});
    if (!words.starts_with(command)) continue;
    std::ifstream maps(process.path() / "maps");
    const std::string lines((std::istreambuf_iterator<char>(maps)), {});
    if (lines.find(file) != std::string::npos) return true;
  }
  return false;
}

TEST(Hostile, WeightsThatAreTruncatedWhileTheyAreReadEndWithTheirName) {
  const TemporaryFolder folder;
  const std::string model = folder.file("model");
  ASSERT_EQ(execute(command, {"make-checkpoint", "--family", "mixtral", "--out", model, "--layers",
                              "24", "--experts", "8"})
                .exit,
            0);
  const std::string weights = model + "/model.safetensors";
  std::atomic<bool> ended = false;
  std::thread truncating([&] {
    while (!is_mapped(weights) && !ended) std::this_thread::yield();
    std::filesystem::resize_file(weights, 4096);
  });
  const Finished run = execute(command, {"run", model, "--json", "--tokens", "4096"});
  ended = true;
  truncating.join();
  EXPECT_EQ(run.exit, 2) << run.err;
  EXPECT_TRUE(run.err.starts_with("waybill: FileTruncated: file " + weights)) << run.err;
  EXPECT_EQ(run.json().at("error").at("code"), "FileTruncated");
  EXPECT_EQ(run.json().at("error").at("where").at("file"), weights);
}

TEST(Hostile, NamesOfAFileDoNotSteerTheTerminal) {
  const BrokenCheckpoint whole("mixtral");
  const std::string placement = whole.path() + "/placement.json";
  std::ofstream(placement)
      << R"({"placement_version": "a\nb\u001b[31m", "slots": [)"
      << R"({"logical_expert": 0, "rank": 0, "id": "\u001b[2Jq"},)"
      << R"({"logical_expert": 1, "rank": 0}, {"logical_expert": 2, "rank": 0},)"
      << R"({"logical_expert": 3, "rank": 0}, {"logical_expert": 4, "rank": 0},)"
      << R"({"logical_expert": 5, "rank": 0}, {"logical_expert": 6, "rank": 0},)"
      << R"({"logical_expert": 7, "rank": 0}]})";
  const std::vector<std::string> placed{whole.path(), "--ranks", "1", "--placement", placement};
  for (std::vector<std::string> words : {std::vector<std::string>{"run"},
                                         {"plan"},
                                         {"plan", "--route", "r0"},
                                         {"verify", placement}}) {
    if (words[0] != "verify") words.insert(words.end(), placed.begin(), placed.end());
    const Finished finished = execute(command, words);
    EXPECT_EQ(finished.exit, 0) << finished.err;
    EXPECT_EQ(finished.out.find('\x1b'), std::string::npos) << finished.out;
    EXPECT_EQ(finished.out.find("a\nb"), std::string::npos) << finished.out;
  }
}

TEST(Hostile, ARecordingThatIsNotFiniteIsNamed) {
  const BrokenCheckpoint broken("mixtral");
  const std::string tensor = "model.layers.1.mlp.block_in";
  broken.overwrite(broken.golden(), broken.offset_of(broken.golden(), tensor), "\xff\xff\xff\x7f");
  const Finished finished =
      execute(command, {"run", broken.path(), "--json", "--golden", broken.golden()});
  EXPECT_EQ(finished.exit, 2);
  const auto error = finished.json().at("error");
  EXPECT_EQ(error.at("code"), "InvalidValue");
  EXPECT_EQ(error.at("where").at("file"), broken.golden());
  EXPECT_EQ(error.at("where").at("tensor"), tensor);
}

TEST(Hostile, AReportThatCannotBeWrittenIsNoSuccess) {
  const BrokenCheckpoint whole("qwen3_moe");
  for (const char* lost : {"1>/dev/full", "2>/dev/full --ranks 0", "1>&-"}) {
    const std::string line = command + " run " + whole.path() + " --json " + lost;
    EXPECT_EQ(execute("/bin/sh", {"-c", line + " 2>&2"}).exit, 2) << lost;
  }
  for (const char* words : {"explain", "doctor", "run --help"}) {
    const Finished finished = execute("/bin/sh", {"-c", command + " " + words + " 1>/dev/full"});
    EXPECT_EQ(finished.exit, 2) << words;
    EXPECT_TRUE(finished.err.starts_with("waybill: FileUnwritable: file stdout")) << finished.err;
  }
}

TEST(Hostile, AnUnusedExpertTensorIsListed) {
  const BrokenCheckpoint broken("qwen3_moe");
  broken.edit_config([](nlohmann::ordered_json& config) {
    config["num_local_experts"] = 15;
    config["num_experts"] = 15;
  });
  broken.edit_header(broken.weights(), [](nlohmann::ordered_json& header) {
    for (int layer : {0, 1}) {
      auto& gate = header["model.layers." + std::to_string(layer) + ".mlp.gate.weight"];
      gate["shape"] = {15, 64};
      // The row that the router no longer has becomes a tensor that nobody reads.
      const int begin = gate["data_offsets"][0], end = gate["data_offsets"][1];
      gate["data_offsets"] = {begin, end - 128};
      header["spare." + std::to_string(layer)] = {
          {"dtype", "BF16"}, {"shape", {64}}, {"data_offsets", {end - 128, end}}};
    }
  });
  const Finished run = execute(command, {"run", broken.path(), "--json"});
  ASSERT_EQ(run.exit, 0) << run.err;
  const auto unused = run.json().at("unused_tensors");
  ASSERT_EQ(unused.size(), 6U);  // expert 15's three projections in two layers
  EXPECT_NE(unused.dump().find("model.layers.0.mlp.experts.15.up_proj.weight"), std::string::npos);
}

}  // namespace
}  // namespace waybill::testing
