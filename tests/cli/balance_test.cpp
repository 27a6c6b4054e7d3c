// waybill balance: the kinds of input on which balancers have failed, the recorded plans of the
// public solver, and reports that fit a terminal.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cli/process.h"
#include "support/temporary_folder.h"

namespace waybill::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Le;
using Lists = std::vector<std::vector<int>>;
using Loads = std::vector<std::vector<double>>;

const std::string gpt_oss =
    std::string(WAYBILL_TEST_DATA) + "/expert_loads/gpt_oss_20b_by_dataset.json";

std::string number(std::size_t value) { return std::to_string(value); }

Finished balance(std::vector<std::string> options) {
  options.insert(options.begin(), "balance");
  return execute(WAYBILL_COMMAND, options);
}

nlohmann::json balanced(std::vector<std::string> options) {
  options.emplace_back("--json");
  const Finished finished = balance(std::move(options));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  return finished.exit == 0 ? finished.json() : nlohmann::json::object();
}

// The error that the command tells a program and a person alike.
nlohmann::json refused(std::vector<std::string> options, int exit) {
  options.emplace_back("--json");
  const Finished finished = balance(std::move(options));
  EXPECT_EQ(finished.exit, exit) << finished.out << finished.err;
  return finished.json()["error"];
}

class BalanceCommand : public ::testing::Test {
 protected:
  std::string loads(const Loads& load) const {
    return folder_.write("loads.json", nlohmann::json{{"load", load}}.dump());
  }
  std::string path(std::string_view name) const { return folder_.file(name); }
  std::string write(std::string_view name, std::string_view text) const {
    return folder_.write(name, text);
  }

 private:
  TemporaryFolder folder_;
};

std::vector<int> copies(const Lists& lists, std::size_t experts) {
  std::vector<int> count(experts, 0);
  for (const auto& list : lists) {
    for (int e : list) ++count[static_cast<std::size_t>(e)];
  }
  return count;
}

struct Sizes {
  std::size_t experts, slots, ranks, nodes, groups;

  std::vector<std::string> options(const std::string& file) const {
    return {file,      "--ranks",     number(ranks), "--nodes",     number(nodes),
            "--slots", number(slots), "--groups",    number(groups)};
  }
};
const std::vector<Sizes> small{
    {12, 16, 8, 2, 4}, {8, 12, 4, 1, 1}, {60, 72, 8, 2, 6}, {16, 17, 5, 1, 1}};

TEST_F(BalanceCommand, LoadWithoutASignalSpreadsSparesAndKeepsThePlacementInForce) {
  for (const Sizes& sizes : small) {
    const std::string file = loads(Loads(2, std::vector<double>(sizes.experts, 0)));
    auto options = sizes.options(file);
    options.insert(options.end(), {"--out", path("plan.json")});
    const auto report = balanced(options);
    EXPECT_THAT(report["warnings"].dump(), HasSubstr("layer 1 has no load signal"));
    for (const auto& layer : report["layers"]) {
      EXPECT_EQ(layer["verdict"], "no_signal");
      EXPECT_EQ(layer["duplicates_after"], 0);
      EXPECT_THAT(copies(layer["experts_by_rank"], sizes.experts), Each(Le(2)));
    }
    options = sizes.options(file);
    options.insert(options.end(), {"--from", path("plan.json")});
    const auto again = balanced(options);
    EXPECT_EQ(again["changed_slots"], 0);
    EXPECT_EQ(again["layers"][0]["experts_by_rank"], report["layers"][0]["experts_by_rank"]);
  }
}

TEST_F(BalanceCommand, LoadThatIsNoLoadIsRefusedByLayerExpertAndValue) {
  const std::vector<std::pair<std::string, std::string>> values{
      {"NaN", "nan"},        {"\"NaN\"", "nan"}, {"Infinity", "inf"},
      {"-Infinity", "-inf"}, {"-3", "-3"},       {"-0.5", "-0.5"}};
  for (const auto& [written, told] : values) {
    for (const auto& [layer, expert] : {std::pair{0, 3}, {1, 0}, {1, 5}}) {
      std::string text = R"({"load": [)";
      for (int l = 0; l < 2; ++l) {
        text += l == 0 ? "[" : ", [";
        for (int e = 0; e < 6; ++e) {
          text += (e == 0 ? "" : ", ") + (l == layer && e == expert ? written : "7");
        }
        text += "]";
      }
      const auto error = refused({write("loads.json", text + "]}"), "--ranks", "2", "--slots", "8",
                                  "--out", path("plan.json")},
                                 1);
      EXPECT_EQ(error["code"], "InvalidValue");
      EXPECT_EQ(error["where"]["layer"], std::to_string(layer));
      EXPECT_EQ(error["where"]["expert"], std::to_string(expert));
      EXPECT_EQ(error["found"], told);
      EXPECT_FALSE(std::filesystem::exists(path("plan.json")));
    }
  }
}

TEST_F(BalanceCommand, UniformLoadSpreadsItsSparesOverRanks) {
  for (const auto& [experts, slots, ranks] :
       std::vector<std::tuple<std::size_t, std::size_t, std::size_t>>{
           {8, 12, 4}, {16, 24, 8}, {6, 12, 4}, {32, 40, 8}}) {
    const auto report = balanced({loads({std::vector<double>(experts, 5)}), "--ranks",
                                  number(ranks), "--slots", number(slots)});
    const auto& layer = report["layers"][0];
    EXPECT_EQ(layer["duplicates_after"], 0);
    const auto count = copies(layer["experts_by_rank"], experts);
    EXPECT_EQ(std::ranges::max(count), 2);  // spares go to different experts
    EXPECT_DOUBLE_EQ(report["mean_ratio_after"].get<double>(), 1);
  }
}

Loads random_loads(std::size_t layers, std::size_t experts) {
  std::mt19937 random(5);
  Loads all(layers, std::vector<double>(experts));
  for (auto& row : all) {
    for (double& load : row) load = 1000 + static_cast<double>(random() % 100'000);
  }
  return all;
}

Loads with_noise(Loads load, double share) {
  std::mt19937 random(3);
  for (auto& row : load) {
    for (double& value : row) {
      value *= 1 + share * (static_cast<double>(random() % 2001) - 1000) / 1000;
    }
  }
  return load;
}

TEST_F(BalanceCommand, NoiseDoesntMoveExperts) {
  const Loads load = random_loads(3, 256);
  balanced({loads(load), "--ranks", "32", "--slots", "288", "--out", path("plan.json")});
  const auto quiet = balanced({loads(with_noise(load, 0.001)), "--from", path("plan.json")});
  EXPECT_EQ(quiet["changed_slots"], 0);

  const std::string noisy = loads(with_noise(load, 0.01));
  const auto stays = balance({noisy, "--from", path("plan.json"), "--shape", "7168,2048,bf16"});
  EXPECT_THAT(stays.out, HasSubstr("gain only, pay-off unknown"));
  const auto moves = balanced({noisy, "--from", path("plan.json"), "--min-gain", "0", "--max-moves",
                               "14", "--shape", "7168,2048,bf16"});
  for (const auto& layer : moves["layers"]) {
    EXPECT_LE(layer["after"]["changed_slots"], 14);
    EXPECT_EQ(layer["after"]["migration_bytes"],
              layer["after"]["changed_slots"].get<std::int64_t>() * 88'080'384);
    EXPECT_LE(layer["after"]["balance_ratio"], layer["before"]["balance_ratio"]);
  }
}

TEST_F(BalanceCommand, SaysWhetherMovingPays) {
  Loads load = random_loads(1, 64);
  balanced({loads(load), "--ranks", "8", "--slots", "72", "--out", path("plan.json")});
  std::ranges::reverse(load[0]);
  const std::vector<std::string> options{
      loads(load),   "--from", path("plan.json"), "--expert-bytes", "44040192",
      "--link-gbps", "4",      "--step-us",       "30000",          "--horizon"};
  auto hasty = options, patient = options;
  hasty.emplace_back("1");
  patient.emplace_back("1000000");
  EXPECT_THAT(balance(hasty).out, HasSubstr("does not pay: saves"));
  EXPECT_THAT(balance(patient).out, HasSubstr("pays: saves"));
  EXPECT_EQ(balanced(hasty)["changed_slots"], 0);
  const auto report = balanced(patient);
  EXPECT_GT(report["pay_off"]["saved_us"], report["pay_off"]["migration_us"]);
}

TEST_F(BalanceCommand, SlotsThatDontDivideAreSpreadUnequally) {
  using Counts = std::vector<int>;
  const std::vector<std::tuple<std::size_t, std::size_t, std::size_t, Counts>> cases{
      {160, 6, 160, {27, 27, 27, 27, 26, 26}},
      {256, 3, 256, {86, 85, 85}},
      {12, 8, 14, {2, 2, 2, 2, 2, 2, 1, 1}},
      {10, 4, 10, {3, 3, 2, 2}}};
  for (const auto& [experts, ranks, slots, by_rank] : cases) {
    const std::string file = loads(random_loads(1, experts));
    const auto report = balanced(
        {file, "--ranks", number(ranks), "--slots", number(slots), "--out", path("plan.json")});
    EXPECT_EQ(report["rank_slots"].get<Counts>(), by_rank);
    EXPECT_EQ(report["layers"][0]["duplicates_after"], 0);
    // As a plan in force it says so itself.
    EXPECT_EQ(balanced({file, "--from", path("plan.json")})["rank_slots"].get<Counts>(), by_rank);
    const auto error = refused({file, "--ranks", number(ranks), "--slots", number(slots), "--out",
                                path("map.json"), "--format", "sglang"},
                               2);
    EXPECT_EQ(error["code"], "SlotsNotEqual");
  }
}

TEST_F(BalanceCommand, ImpossibleCountsNameTheNearestValidSetting) {
  struct Impossible {
    std::size_t experts;
    std::vector<std::string> options;
    std::string code;
    std::vector<std::string> told;
  };
  const std::vector<Impossible> cases{
      {12, {"--slots", "8", "--ranks", "8"}, "ReplicaCardinalityZero", {"12 at least", "8 slots"}},
      {12,
       {"--slots", "16", "--ranks", "8", "--nodes", "3"},
       "DivisibilityMismatch",
       {"8 ranks", "2 or 4", "found 3"}},
      {60,
       {"--slots", "64", "--ranks", "10", "--nodes", "4"},
       "DivisibilityMismatch",
       {"10 ranks", "2 or 5", "found 4"}},
      {4, {"--slots", "4", "--ranks", "8"}, "TooManyRanks", {"at most 4", "found 8"}},
      {8, {"--slots", "40", "--ranks", "4"}, "InvalidValue", {"at most 32", "found 40"}},
      {12,
       {"--slots", "14", "--ranks", "8", "--solver", "eplb"},
       "InvalidValue",
       {"eplb", "slots"}}};
  for (const Impossible& impossible : cases) {
    auto options = impossible.options;
    options.insert(options.begin(), loads(random_loads(1, impossible.experts)));
    const auto error = refused(options, 2);
    EXPECT_EQ(error["code"], impossible.code) << error;
    for (const std::string& word : impossible.told) {
      EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(word));
    }
  }
}

TEST_F(BalanceCommand, UnequalNodesAreLegalWhereATopologyNamesThem) {
  nlohmann::json topology{{"schema", "waybill-topology-1"}, {"topology_version", "t"}};
  for (int rank = 0; rank < 8; ++rank) {
    topology["ranks"].push_back(
        {{"rank", rank}, {"node", fmt::format("node-{}", rank / 3)}, {"local_rank", rank % 3}});
  }
  const std::string file = write("topology.json", topology.dump());
  const auto report = balanced({loads(random_loads(1, 12)), "--topology", file, "--slots", "16"});
  EXPECT_EQ(report["nodes"], 3);
  EXPECT_EQ(report["ranks"], 8);
  EXPECT_EQ(refused({loads(random_loads(1, 12)), "--topology", file, "--ranks", "8"}, 2)["code"],
            "UsageError");
}

TEST_F(BalanceCommand, GroupsThatDontDivideOverNodesAreAnErrorOrAWarning) {
  for (const auto& [experts, ranks, nodes, groups] :
       std::vector<std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>>{
           {12, 8, 2, 3}, {60, 8, 4, 6}, {30, 6, 3, 5}}) {
    std::vector<std::string> options{loads(random_loads(1, experts)),
                                     "--ranks",
                                     number(ranks),
                                     "--nodes",
                                     number(nodes),
                                     "--slots",
                                     number(experts / ranks * ranks + 2 * ranks),
                                     "--groups",
                                     number(groups)};
    const auto report = balanced(options);
    EXPECT_THAT(report["warnings"].dump(),
                HasSubstr(fmt::format("{} groups don't divide over {} nodes", groups, nodes)));
    for (const char* strict : {"soft", "hard"}) {
      auto with = options;
      with.insert(with.end(), {"--locality", strict});
      const auto error = refused(with, 2);
      EXPECT_EQ(error["code"], "DivisibilityMismatch");
      EXPECT_THAT(error["message"].get<std::string>(),
                  HasSubstr(fmt::format("{} nodes, nearest", nodes)));
      EXPECT_THAT(error["message"].get<std::string>(),
                  HasSubstr(fmt::format("found {} groups", groups)));
    }
  }
}

TEST_F(BalanceCommand, LostRanksListWhatMustBeReloadedAndAPlanForTheOthers) {
  const std::string file = loads({std::vector<double>(8, 5)});
  balanced({file, "--ranks", "4", "--slots", "12", "--out", path("plan.json")});
  for (const int lost : {3, 0, 1}) {
    const auto before = balanced({file, "--from", path("plan.json")})["layers"][0];
    const auto report = balanced({file, "--from", path("plan.json"), "--lost-rank",
                                  std::to_string(lost), "--out", path("rest.json")});
    const auto& layer = report["layers"][0];
    const Lists in_force = before["experts_by_rank"];
    const auto count = copies(in_force, 8);
    std::vector<int> gone;
    for (int e : in_force[static_cast<std::size_t>(lost)]) {
      if (count[static_cast<std::size_t>(e)] == 1) gone.push_back(e);
    }
    std::ranges::sort(gone);
    EXPECT_EQ(layer["gone"].get<std::vector<int>>(), gone);
    EXPECT_EQ(layer["reloads"].size(), gone.size());
    for (const auto& reload : layer["reloads"]) EXPECT_NE(reload["rank"], lost);
    EXPECT_TRUE(layer["experts_by_rank"][static_cast<std::size_t>(lost)].empty());
    EXPECT_THAT(copies(layer["experts_by_rank"], 8), Each(::testing::Ge(1)));
    // The file holds the three ranks that are left.
    EXPECT_EQ(balanced({file, "--from", path("rest.json")})["ranks"], 3);
    const Finished told =
        balance({file, "--from", path("plan.json"), "--lost-rank", std::to_string(lost)});
    EXPECT_THAT(told.out, HasSubstr("no copy left of"));
  }
  const auto few = refused({file, "--from", path("plan.json"), "--lost-rank", "2-3"}, 2);
  EXPECT_THAT(few["message"].get<std::string>(), HasSubstr("2 more slots"));
  EXPECT_EQ(refused({file, "--from", path("plan.json"), "--lost-rank", "4"}, 2)["code"],
            "RankOutsideGroup");
}

TEST_F(BalanceCommand, BalancednessIsMeanOverLargestRank) {
  const auto report = balanced({loads({{100, 200}, {100, 200}}), "--ranks", "2", "--slots", "2"});
  EXPECT_DOUBLE_EQ(report["balancedness_before"].get<double>(), 0.75);
  const auto weighted = balanced({loads({{300, 300}, {0, 200}}), "--ranks", "2", "--slots", "2"});
  EXPECT_DOUBLE_EQ(weighted["balancedness_before"].get<double>(), (600 * 1.0 + 200 * 0.5) / 800);
}

TEST_F(BalanceCommand, RowsBetweenNodesAreCountedWhenSourcesAreKnown) {
  const std::string file = write("loads.json", R"({"load": [[[10, 10, 0, 0], [0, 0, 10, 10]]]})");
  const std::string crossed =
      write("crossed.json", R"({"placement_version": "p", "experts_by_rank": [[2, 3], [0, 1]]})");
  const auto report = balanced({file, "--from", crossed, "--nodes", "2"});
  EXPECT_DOUBLE_EQ(report["layers"][0]["before"]["inter_node"].get<double>(), 40);
  const auto unknown = balanced({file, "--ranks", "4", "--nodes", "4"});
  EXPECT_TRUE(unknown["layers"][0]["after"]["inter_node"].is_null());
  EXPECT_THAT(unknown["warnings"].dump(), HasSubstr("2 source nodes"));
}

TEST_F(BalanceCommand, AutoTakesTheFewestSlotsThatGain) {
  const auto none = balanced({loads({std::vector<double>(8, 5)}), "--ranks", "4"});
  EXPECT_EQ(none["rank_slots"].get<std::vector<int>>(), (std::vector<int>{2, 2, 2, 2}));
  Loads hot{std::vector<double>(8, 5)};
  hot[0][0] = 60;
  const auto some = balanced({loads(hot), "--ranks", "4", "--slots", "auto"});
  EXPECT_GT(some["rank_slots"][0], 2);
  EXPECT_LT(some["mean_ratio_after"], 1.1);
  const auto fit =
      balanced({loads(hot), "--ranks", "4", "--memory-bytes", "500", "--expert-bytes", "100"});
  EXPECT_EQ(fit["rank_slots"][0], 5);
  EXPECT_THAT(refused({loads(hot), "--ranks", "4", "--memory-bytes", "500", "--expert-bytes", "100",
                       "--slots", "24"},
                      2)["message"]
                  .get<std::string>(),
              HasSubstr("at most 5"));
}

TEST_F(BalanceCommand, ExplainsEveryTermOfTheObjective) {
  const Finished told =
      balance({gpt_oss, "--set", "mmlu_test", "--ranks", "8", "--slots", "40", "--explain"});
  EXPECT_EQ(told.exit, 0) << told.err;
  for (const char* term : {"balance", "inter_node", "migration", "resident", "churn", "norm"}) {
    EXPECT_THAT(told.out, HasSubstr(term));
  }
}

TEST_F(BalanceCommand, ReportsFitEightyColumnsAndArePlain) {
  const std::string large =
      std::string(WAYBILL_TEST_DATA) + "/expert_loads/deepseek_v3_58x256_zipf1.2.json.gz";
  balanced({large, "--ranks", "64", "--slots", "320", "--out", path("plan.json")});
  for (const auto& options : std::vector<std::vector<std::string>>{
           {gpt_oss, "--set", "mmlu_test", "--ranks", "8", "--explain"},
           {large, "--ranks", "32", "--nodes", "4", "--groups", "8", "--slots", "288"},
           {large, "--from", path("plan.json"), "--shape", "7168,2048,f8_e4m3", "--explain"},
           {large, "--from", path("plan.json"), "--lost-rank", "3,17"}}) {
    const Finished finished = balance(options);
    EXPECT_EQ(finished.exit, 0) << finished.err;
    std::string text = finished.out;  // a path of this machine may be longer than a line
    for (const std::string& file : {large, gpt_oss, path("plan.json")}) {
      for (std::size_t at = 0; (at = text.find(file)) != std::string::npos;) {
        text.replace(at, file.size(), "FILE");
      }
    }
    EXPECT_LE(longest_line(text), 80U) << text;
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
  }
}

TEST_F(BalanceCommand, GivesTheSameBytesForAnyThreadCount) {
  std::vector<std::string> texts;
  for (const char* threads : {"1", "3"}) {
    texts.push_back(balance({gpt_oss, "--set", "gpqa_main", "--ranks", "8", "--slots", "40",
                             "--json", "--threads", threads})
                        .out);
  }
  EXPECT_EQ(texts[0], texts[1]);
}

std::vector<std::string> recorded_eplb_plans() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(WAYBILL_TEST_DATA "/eplb")) {
    const std::string name = entry.path().filename();
    // c23 has one GPU hold two copies of an expert because there is no other: no plan of ours does.
    const bool fits = !name.starts_with("c23");
    if (name.front() == 'c' && name.ends_with(".json") && fits) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

TEST_F(BalanceCommand, SolverEplbWritesTheRecordedArrays) {
  for (const std::string& name : recorded_eplb_plans()) {
    SCOPED_TRACE(name);
    const std::string file = std::string(WAYBILL_TEST_DATA) + "/eplb/" + name;
    const auto recorded = nlohmann::json::parse(std::ifstream(file));
    const auto count = [&](const char* key) { return number(recorded[key].get<std::size_t>()); };
    const Finished finished =
        balance({file, "--solver", "eplb", "--format", "eplb", "--out", path("plan.json"),
                 "--ranks", count("num_gpus"), "--nodes", count("num_nodes"), "--groups",
                 count("num_groups"), "--slots", count("num_replicas")});
    ASSERT_EQ(finished.exit, 0) << finished.err;
    const auto written = nlohmann::json::parse(std::ifstream(path("plan.json")));
    for (const char* key : {"phy2log", "log2phy", "logcnt"}) {
      EXPECT_EQ(written[key], recorded["expect"][key]) << key;
    }
  }
}

}  // namespace
}  // namespace waybill::testing
