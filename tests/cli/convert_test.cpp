// waybill convert: every format through our own schema and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/process.h"
#include "support/placement_tables.h"
#include "support/temporary_folder.h"
#include "waybill/placement_file.h"

namespace waybill::testing {
namespace {

using ::testing::HasSubstr;

std::string recorded_file(const std::string& name) {
  return std::string(WAYBILL_TEST_DATA) + "/load_files/" + name;
}

Finished convert(std::vector<std::string> options) {
  options.insert(options.begin(), "convert");
  return execute(WAYBILL_COMMAND, options);
}

nlohmann::json converted(std::vector<std::string> options) {
  options.emplace_back("--json");
  const Finished finished = convert(std::move(options));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  return finished.exit == 0 ? finished.json() : nlohmann::json::object();
}

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(Convert, EveryPlacementComesBackThroughOurSchema) {
  const TemporaryFolder folder;
  for (FileFormat format : {FileFormat::waybill, FileFormat::sglang, FileFormat::vllm,
                            FileFormat::ascend, FileFormat::tensorrt_llm, FileFormat::eplb}) {
    const std::string name_of(name(format));
    SCOPED_TRACE(name_of);
    const std::string suffix = format == FileFormat::tensorrt_llm ? ".yaml" : ".json";
    const std::string original = folder.file("original" + suffix);
    write_placement_table(original, format, two_layers());
    const auto report = converted({original, folder.file("ours.json"), "--ranks", "2",
                                   "--dense-layers", "0,2", "--from-format", name_of});
    EXPECT_EQ(report["kind"], "placement");
    EXPECT_EQ(report["from"]["format"], name_of);
    EXPECT_EQ(report["layers"].get<std::vector<int>>(), (std::vector<int>{1, 3}));
    converted({folder.file("ours.json"), folder.file("back" + suffix), "--to-format", name_of});
    EXPECT_EQ(content(folder.file("back" + suffix)), content(original));
  }
}

TEST(Convert, EveryLoadComesBackThroughOurSchema) {
  const TemporaryFolder folder;
  for (const auto& [file, format] :
       std::vector<std::pair<std::string, std::string>>{{"sglang_statistics.json", "sglang"},
                                                        {"tensorrt_llm", "tensorrt_llm"},
                                                        {"megatron", "megatron"}}) {
    SCOPED_TRACE(file);
    const std::string ours = folder.file("ours.json"), again = folder.file("again.json"),
                      back = folder.file("back-" + format + (format == "megatron" ? ".npz" : ""));
    const auto report = converted({recorded_file(file), ours});
    EXPECT_EQ(report["kind"], "loads");
    EXPECT_EQ(report["from"]["format"], format);
    converted({ours, back, "--to-format", format});
    const auto returned = converted({back, again});
    EXPECT_EQ(returned["layers"], report["layers"]);
    const auto windows = [](const std::string& path) {
      auto loads = nlohmann::json::parse(content(path))["windows"];
      for (auto& window : loads) window = window["load"];
      return loads;
    };
    EXPECT_EQ(windows(again), windows(ours));
  }
  const std::string call = folder.write("call.json", R"({"weight": [[1, 2.5], [3, 4]]})");
  converted({call, folder.file("ours.json")});
  converted({folder.file("ours.json"), folder.file("back.json"), "--to-format", "eplb"});
  EXPECT_EQ(nlohmann::json::parse(content(folder.file("back.json")))["weight"],
            nlohmann::json::parse(content(call))["weight"]);
}

TEST(Convert, RefusesWhatAFormatCannotSay) {
  const TemporaryFolder folder;
  const std::string to = folder.file("to.json");
  const auto code = [&](std::vector<std::string> options) {
    options.emplace_back("--json");
    const Finished finished = convert(std::move(options));
    EXPECT_EQ(finished.exit, 2) << finished.err;
    EXPECT_FALSE(std::filesystem::exists(to));
    return finished.json()["error"]["code"].get<std::string>();
  };
  PlacementTable table = two_layers();
  table.slots[1] = {{3, 2, 1, 0}, {0, 3}};
  const std::string unequal = folder.file("unequal.json");
  write_placement_table(unequal, FileFormat::waybill, table);
  for (const char* format : {"sglang", "vllm", "ascend", "tensorrt-llm", "eplb"}) {
    EXPECT_EQ(code({unequal, to, "--to-format", format}), "SlotsNotEqual");
  }
  EXPECT_EQ(code({unequal, to, "--to-format", "megatron"}), "OptionNotBuilt");
  EXPECT_EQ(code({unequal, to, "--to-format", "tutel"}), "UsageError");
  EXPECT_EQ(code({unequal, to, "--from-format", "sglang"}), "UnknownFormat");
  const std::string uncovered = folder.write("uncovered.json", "[[0, 1, 3, 3]]");
  EXPECT_EQ(code({uncovered, to, "--ranks", "2"}), "ReplicaCardinalityZero");
  EXPECT_EQ(code({folder.write("list.json", "[[0, 1]]"), to}), "MissingField");
  EXPECT_EQ(code({folder.write("loads.json", R"({"load": [[1, 2]]})"), to, "--to-format",
                  "tensorrt_llm"}),
            "MissingField");
  EXPECT_EQ(
      code({folder.write("half.json", R"({"load": [[1.5, 2]]})"), to, "--to-format", "megatron"}),
      "InvalidValue");
  EXPECT_EQ(code({unequal}), "UsageError");
}

TEST(Convert, LoadsThatAreNoLoadsAreAViolation) {
  const TemporaryFolder folder;
  const std::string file = folder.write("loads.json", R"({"logical_count": [[[1, 2], [NaN, 4]]]})");
  const Finished finished = convert({file, folder.file("to.json")});
  EXPECT_EQ(finished.exit, 1);
  EXPECT_THAT(finished.err, HasSubstr("layer 1, expert 0"));
  EXPECT_FALSE(std::filesystem::exists(folder.file("to.json")));
}

}  // namespace
}  // namespace waybill::testing
