#include <gtest/gtest.h>

#include <cctype>
#include <sstream>
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
  for (const char* command :
       {"run", "plan", "balance", "convert", "doctor", "explain", "make-checkpoint", "verify"}) {
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
      {"--selector", "queue_aware"}, {"--selector", "split"}};
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
  for (const char* command : {"migrate", "release", "serve", "eval", "bench", "report"}) {
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

// `mistake` after `command` is a fault of the command line, told with every word of `named`.
void expect_refused(const std::string& command, std::vector<std::string> mistake,
                    const std::string& code, const std::vector<std::string>& named) {
  mistake.insert(mistake.begin(), command);
  const Finished finished = waybill(mistake);
  EXPECT_EQ(finished.exit, 2) << command;
  EXPECT_TRUE(finished.out.empty()) << finished.out;
  EXPECT_EQ(finished.err.rfind("waybill: " + code + ": command waybill " + command, 0), 0U)
      << finished.err;
  for (const std::string& word : named) {
    EXPECT_NE(finished.err.find(word), std::string::npos) << word << " in " << finished.err;
  }
}

// Every option of a command by what --help says of it: with a value, or a flag.
struct Options {
  std::vector<std::string> values, numbers, flags;
};

Options options_of(const std::string& command) {
  Options options;
  std::istringstream help(waybill({command, "--help"}).out);
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("  --") && !line.starts_with("  -h,--")) continue;
    const std::size_t begin = line.find("--");
    const std::size_t end = line.find_first_of(" ,", begin);
    const std::string name = line.substr(begin, end - begin);
    const bool takes_value = end + 1 < line.size() && std::isupper(line[end + 1]) != 0;
    (takes_value ? options.values : options.flags).push_back(name);
    if (takes_value && line[end + 1] == 'N' && std::isalpha(line[end + 2]) == 0)
      options.numbers.push_back(name);
  }
  return options;
}

const std::vector<std::string> commands{"run",     "plan",   "balance",         "convert",
                                        "explain", "doctor", "make-checkpoint", "verify"};

TEST(Usage, AnEmptyValueIsNotReadAsAnOptionThatWasNotGiven) {
  std::size_t seen = 0;
  for (const std::string& command : commands) {
    expect_refused(command, {""}, "UsageError", {"empty"});
    for (const std::string& option : options_of(command).values) {
      expect_refused(command, {option, ""}, "UsageError", {option, "empty"});
      ++seen;
    }
  }
  EXPECT_GE(seen, 40U);
  expect_refused("run", {mixtral, "--golden="}, "UsageError", {"--golden", "empty"});
}

TEST(Usage, AForgottenValueDoesNotSwallowTheNextOption) {
  expect_refused("run", {mixtral, "--golden", "--dedup"}, "UsageError", {"--golden", "--dedup"});
  expect_refused("run", {mixtral, "--golden"}, "UsageError", {"--golden"});
  expect_refused("plan", {mixtral, "--ranks", "--nodes=2"}, "UsageError", {"--ranks", "--nodes=2"});
}

TEST(Usage, AFlagTakesNoValue) {
  for (const std::string value : {"false", ""}) {
    expect_refused("run", {"--json=" + value}, "UsageError", {"--json", value});
  }
  for (const std::string& command : commands) {
    const Options options = options_of(command);
    EXPECT_GE(options.flags.size(), 2U);
    for (const std::string& flag : options.flags) {
      expect_refused(command, {flag + "=true"}, "UsageError", {flag, "true"});
    }
  }
}

TEST(Usage, ANumberIsDecimalAndInItsRange) {
  const std::string range = "a number from";
  std::size_t seen = 0;
  for (const std::string& command : commands) {
    for (const std::string& option : options_of(command).numbers) {
      expect_refused(command, {option, "0x10"}, "UsageError", {option, "0x10", range});
      expect_refused(command, {option, "-1"}, "InvalidValue", {option, "-1", range});
      ++seen;
    }
  }
  EXPECT_GE(seen, 15U);
  for (const std::string value : {"1e3", "4.0", "+4", " 4", "four", "4k", "--4", "0b1", "4,5"}) {
    expect_refused("run", {"--seed", value}, "UsageError", {"--seed", value, range});
  }
  for (const std::string option : {"--seed", "--ranks", "--tokens"}) {
    const std::string beyond = "18446744073709551616";
    expect_refused("run", {option, beyond}, "InvalidValue", {option, beyond, range});
  }
  EXPECT_EQ(waybill({"run", mixtral, "--seed", "18446744073709551615"}).exit, 0);
  EXPECT_EQ(waybill({"run", mixtral, "--ranks", "007"}).exit, 0);
}

TEST(Usage, OptionsThatContradictOrDoNothingAreRefused) {
  const auto refused = [](const std::string& command, const std::vector<std::string>& words,
                          const std::string& first, const std::string& second) {
    expect_refused(command, words, "UsageError", {first, second});
  };
  for (const char* command : {"run", "plan"}) {
    refused(command, {mixtral, "--checkpoint", mixtral}, "--checkpoint", "CHECKPOINT_DIR");
    refused(command, {mixtral, "--dedup", "--no-dedup"}, "--dedup", "--no-dedup");
    refused(command, {mixtral, "--seed", "1", "--seed", "2"}, "--seed", "1");
  }
  refused("run", {mixtral, "--check-tokens", "3"}, "--check-tokens", "--check");
  expect_refused("run", {mixtral, "--check", "--check-tokens", "0"}, "InvalidValue",
                 {"--check-tokens", "0"});
  for (const char* size : {"--experts", "--topk", "--hidden"}) {
    refused("plan", {mixtral, size, "2"}, size, "--routes");
  }
  refused("plan", {"--routes", "zipf", "--experts", "4"}, "--routes", "--topk");
  refused("plan", {"--routes", "zipf", "--topk", "4"}, "--routes", "--experts");
  refused("plan", {mixtral, "--routes", "zipf"}, "CHECKPOINT_DIR", "both");
  refused("plan", {"--routes", "zipf", "--experts", "4", "--topk", "1", "--layers", "0"},
          "--layers", "--routes");
  EXPECT_EQ(waybill({"run", "--checkpoint", mixtral}).exit, 0);
}

TEST(Usage, SizesThatFitNoMachineAreRefusedByTheirProduct) {
  const std::string most_tokens = "16777216";
  const std::string olmoe = std::string(WAYBILL_TEST_DATA) + "/checkpoints/olmoe";
  expect_refused("run", {olmoe, "--tokens", most_tokens}, "UsageError",
                 {"tokens x topk x hidden", "4294967296"});
  expect_refused("plan",
                 {"--routes", "zipf", "--experts", "65536", "--topk", "9", "--tokens", most_tokens},
                 "UsageError", {"tokens x topk", "134217728"});
  expect_refused("plan",
                 {"--routes", "zipf", "--experts", "65536", "--topk", "1", "--ranks", "4096"},
                 "UsageError", {"ranks x slots", "67108864"});
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
