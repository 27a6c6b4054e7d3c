#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/process.h"

namespace waybill::testing {
namespace {

const std::string mixtral = std::string(WAYBILL_TEST_DATA) + "/checkpoints/mixtral";

Finished waybill(const std::vector<std::string>& arguments) {
  return execute(WAYBILL_COMMAND, arguments);
}

TEST(Usage, HelpHasAnExampleAndFitsEightyColumns) {
  for (const char* command : {"run", "plan", "doctor", "explain", "make-checkpoint", "verify"}) {
    const Finished finished = waybill({command, "--help"});
    EXPECT_EQ(finished.exit, 0);
    EXPECT_NE(finished.out.find("\nExample: waybill " + std::string(command)), std::string::npos)
        << finished.out;
    EXPECT_LE(longest_line(finished.out), 80U) << finished.out;
    EXPECT_TRUE(finished.err.empty());
  }
  const Finished all = waybill({"--help"});
  EXPECT_EQ(all.exit, 0);
  EXPECT_LE(longest_line(all.out), 80U) << all.out;
  EXPECT_EQ(waybill({"--version"}).out.rfind("waybill ", 0), 0U);
}

TEST(Usage, OptionValuesOfLaterVersionsAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> later{
      {"--runner", "padded"},        {"--runner", "block_sparse"}, {"--exchange", "hierarchical"},
      {"--exchange", "gathered"},    {"--transport", "mpi"},       {"--transport", "nccl"},
      {"--selector", "queue_aware"}, {"--selector", "split"},      {"--topology", "topology.json"}};
  for (const auto& [option, value] : later) {
    const Finished finished = waybill({"run", mixtral, option, value});
    EXPECT_EQ(finished.exit, 2) << option;
    EXPECT_TRUE(finished.out.empty()) << finished.out;
    EXPECT_NE(finished.err.find("OptionNotBuilt"), std::string::npos) << finished.err;
    EXPECT_NE(finished.err.find(option), std::string::npos) << finished.err;
    EXPECT_NE(finished.err.find(value), std::string::npos) << finished.err;
  }
}

TEST(Usage, SubcommandsOfLaterVersionsAreRefusedByName) {
  for (const char* command :
       {"balance", "migrate", "convert", "release", "serve", "eval", "bench", "report"}) {
    const Finished finished = waybill({command, "--help", "x"});
    EXPECT_EQ(finished.exit, 2);
    EXPECT_NE(finished.err.find("OptionNotBuilt: command " + std::string(command)),
              std::string::npos)
        << finished.err;
  }
}

TEST(Usage, MistakesAreUsageErrors) {
  const std::vector<std::vector<std::string>> mistakes{{},
                                                       {"rnu"},
                                                       {"run"},
                                                       {"run", mixtral, "--no-such-option"},
                                                       {"run", mixtral, "surplus"},
                                                       {"run", mixtral, "--ranks", "four"},
                                                       {"run", mixtral, "--dtype", "f33"},
                                                       {"run", mixtral, "--checks", "some"},
                                                       {"explain", "NoSuchCode"}};
  for (const auto& arguments : mistakes) {
    const Finished finished = waybill(arguments);
    EXPECT_EQ(finished.exit, 2);
    EXPECT_TRUE(finished.out.empty()) << finished.out;
    EXPECT_NE(finished.err.find("UsageError"), std::string::npos) << finished.err;
  }
  EXPECT_NE(waybill({"rnu"}).err.find("nearest: run"), std::string::npos);
  EXPECT_NE(waybill({"explain", "SplitVector"}).err.find("SplitVectorMismatch"), std::string::npos);
}

TEST(Usage, WithJsonTheErrorIsOnStdoutToo) {
  const Finished finished = waybill({"run", mixtral, "--ranks", "9", "--json"});
  EXPECT_EQ(finished.exit, 2);
  const auto error = finished.json()["error"];
  EXPECT_EQ(error["code"], "TooManyRanks");
  EXPECT_EQ(error["category"], "input");
  EXPECT_NE(finished.err.find(error["message"].get<std::string>()), std::string::npos);
  EXPECT_NE(finished.err.find("waybill explain TooManyRanks"), std::string::npos);
}

TEST(Explain, EveryCodeHasAContractThatFitsThePage) {
  const Finished all = waybill({"explain", "--json"});
  EXPECT_EQ(all.exit, 0);
  const auto codes = all.json()["codes"];
  EXPECT_GE(codes.size(), 162U);
  for (const auto& code : codes) {
    EXPECT_GE(code["contract"].get<std::string>().size(), 20U) << code;
  }
  const Finished one = waybill({"explain", "RouteConservationMismatch"});
  EXPECT_EQ(one.exit, 0);
  EXPECT_NE(one.out.find("counts_and_layout"), std::string::npos);
  EXPECT_NE(one.out.find("(0x01B"), std::string::npos);
  EXPECT_LE(longest_line(one.out), 80U);
  EXPECT_NE(waybill({"explain"}).out.find("\ncounts_and_layout\n  LogicalCountMismatch\n"),
            std::string::npos);
}

TEST(Doctor, SaysWhatThereIsAndWhichPathRuns) {
  const Finished text = waybill({"doctor"});
  EXPECT_EQ(text.exit, 0);
  EXPECT_LE(longest_line(text.out), 80U) << text.out;
  const auto json = waybill({"doctor", "--json"}).json();
  EXPECT_GE(json["cores"].get<int>(), 1);
  EXPECT_EQ(json["path"]["kernels"], json["kernels"]);
  EXPECT_EQ(json["path"]["transport"], "local");
  EXPECT_FALSE(json["families"].empty());
}

}  // namespace
}  // namespace waybill::testing
