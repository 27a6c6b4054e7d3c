#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/process.h"
#include "support/temporary_folder.h"
#include "waybill/checkpoint.h"

namespace waybill::testing {
namespace {

Finished make(const std::string& family, const std::string& directory,
              std::vector<std::string> options = {}) {
  std::vector<std::string> arguments{
      "make-checkpoint", "--family", family, "--hidden", "64", "--ff", "48", "--out", directory};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return execute(WAYBILL_COMMAND, arguments);
}

class NewCheckpoints : public ::testing::TestWithParam<std::string_view> {};

TEST_P(NewCheckpoints, RunRightOnOneRankAndOnSeveral) {
  const TemporaryFolder folder;
  for (const char* shards : {"1", "3"}) {
    const std::string directory = folder.file(shards);
    const Finished made = make(std::string(GetParam()), directory, {"--shards", shards});
    ASSERT_EQ(made.exit, 0) << made.err;
    std::string hash;
    for (const char* ranks : {"1", "3", "4"}) {
      const Finished ran = execute(WAYBILL_COMMAND, {"run", directory, "--check", "--tokens", "9",
                                                     "--ranks", ranks, "--json"});
      ASSERT_EQ(ran.exit, 0) << ran.err;
      if (hash.empty()) hash = ran.json()["output_sha256"];
      EXPECT_EQ(ran.json()["output_sha256"], hash);
      EXPECT_LE(ran.json()["max_rel_error"].get<double>(), 5e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfEveryFamily, NewCheckpoints, ::testing::ValuesIn(family_names()),
                         [](const auto& family) { return std::string(family.param); });

TEST(MakeCheckpoint, TellsWhatItWrote) {
  const TemporaryFolder folder;
  const Finished made = make("olmoe", folder.file("new"), {"--shards", "2", "--json"});
  ASSERT_EQ(made.exit, 0) << made.err;
  EXPECT_EQ(made.json()["files"], 4);
  EXPECT_EQ(made.json()["tensors"], 2 * (1 + 8 * 3));
  EXPECT_EQ(made.json()["tensor_bytes"], 2 * 2 * (8 * 64 + 8 * 3 * 64 * 48));
}

TEST(MakeCheckpoint, RefusesWithoutWriting) {
  const TemporaryFolder folder;
  const auto refused = [&](std::vector<std::string> options, const std::string& family = "olmoe") {
    const Finished finished = make(family, folder.file("new"), std::move(options));
    EXPECT_EQ(finished.exit, 2);
    EXPECT_TRUE(finished.out.empty());
    return finished.err;
  };
  EXPECT_NE(refused({"--topk", "9"}).find("TopKExceedsExperts"), std::string::npos);
  EXPECT_NE(refused({"--layers", "0"}).find("InvalidValue"), std::string::npos);
  EXPECT_NE(refused({"--shards", "1000"}).find("InvalidValue"), std::string::npos);
  EXPECT_NE(refused({}, "gpt2").find("UnknownFamily"), std::string::npos);
  ASSERT_EQ(make("olmoe", folder.file("new")).exit, 0);
  EXPECT_NE(refused({}).find("FileUnwritable"), std::string::npos);
}

TEST(MakeCheckpoint, RunRefusesSharedRowsOfScaledInputsWithTheReason) {
  const TemporaryFolder folder;
  const std::string directory = folder.file("new");
  ASSERT_EQ(make("llama4_text", directory).exit, 0);
  for (const char* command : {"run", "plan"}) {
    const Finished finished = execute(WAYBILL_COMMAND, {command, directory, "--dedup"});
    EXPECT_EQ(finished.exit, 2) << finished.err;
    EXPECT_NE(finished.err.find("dedup"), std::string::npos);
    EXPECT_NE(finished.err.find("one copy"), std::string::npos) << finished.err;
  }
}

TEST(MakeCheckpoint, AFilePastTheLimitIsRefusedAndNotLeftBehind) {
  const TemporaryFolder folder;
  const std::string directory = folder.file("new");
  const Finished made = execute(
      "/bin/sh", {"-c", "ulimit -f 100; exec " WAYBILL_COMMAND " make-checkpoint --family mixtral"
                        " --out " +
                            directory});
  EXPECT_EQ(made.exit, 2);
  EXPECT_TRUE(made.err.starts_with("waybill: FileUnwritable: file " + directory)) << made.err;
  EXPECT_FALSE(std::filesystem::exists(directory + "/model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(directory + "/model.safetensors.partial"));
}

}  // namespace
}  // namespace waybill::testing
