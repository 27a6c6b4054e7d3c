#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/process.h"
#include "support/temporary_folder.h"

namespace waybill::testing {
namespace {

const std::string qwen3 = std::string(WAYBILL_TEST_DATA) + "/checkpoints/qwen3_moe";

Finished plan(std::vector<std::string> options) {
  options.insert(options.begin(), "plan");
  return execute(WAYBILL_COMMAND, options);
}

nlohmann::json report(std::vector<std::string> options) {
  options.emplace_back("--json");
  const Finished finished = plan(std::move(options));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  return finished.json();
}

TEST(Plan, SplitsFollowThePeerOrderAndTransposeAtTheReceiver) {
  const std::vector<int> order{2, 0, 3, 1};
  const auto layer = report({"--routes", "zipf", "--experts", "16", "--topk", "4", "--tokens",
                             "100", "--peer-order", "2,0,3,1"})["layers"][0];
  int total = 0;
  for (std::size_t source = 0; source < 4; ++source) {
    for (std::size_t peer = 0; peer < 4; ++peer) {
      const auto destination = static_cast<std::size_t>(order[peer]);
      const int count = layer["count_matrix"][source][destination];
      EXPECT_EQ(layer["send_splits"][source][peer], count);
      EXPECT_EQ(layer["recv_splits"][source][peer], layer["count_matrix"][destination][source]);
      total += count;
    }
  }
  EXPECT_EQ(total, 400);
  EXPECT_EQ(layer["rows"]["routes"], 400);
}

TEST(Plan, AgreesWithARun) {
  const auto planned = report({qwen3, "--selector", "hash"});
  const auto ran = execute(WAYBILL_COMMAND, {"run", qwen3, "--selector", "hash", "--json"}).json();
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(planned["layers"][i]["rows"], ran["layers"][i]["rows"]);
    EXPECT_EQ(planned["layers"][i]["logical_bytes"], ran["layers"][i]["logical_bytes"]);
    EXPECT_EQ(planned["layers"][i]["live_bytes"], ran["layers"][i]["live_bytes"]);
    EXPECT_EQ(planned["layers"][i]["rank_rows"], ran["layers"][i]["rank_rows"]);
  }
}

TEST(Plan, EveryRouteHasAJourneyOfItsOwn) {
  const std::vector<std::string> world{"--routes", "uniform", "--experts",    "8",
                                       "--topk",   "2",       "--tokens",     "6",
                                       "--ranks",  "4",       "--peer-order", "3,1,0,2"};
  std::set<std::pair<int, int>> sent, received, executed;
  for (int r = 0; r < 12; ++r) {
    auto options = world;
    options.insert(options.end(), {"--route", fmt::format("r{}", r)});
    const auto journey = report(options)["journey"];
    EXPECT_EQ(journey["token"], r / 2);
    EXPECT_EQ(journey["route_slot"], r % 2);
    EXPECT_EQ(journey["expert"].get<int>() / 2, journey["destination_rank"].get<int>());
    EXPECT_EQ(journey["return_position"], journey["send_position"]);
    sent.emplace(journey["origin_rank"], journey["send_position"]);
    received.emplace(journey["destination_rank"], journey["receive_position"]);
    executed.emplace(journey["destination_rank"], journey["expert_row"]);
  }
  EXPECT_EQ(sent.size(), 12U);
  EXPECT_EQ(received.size(), 12U);
  EXPECT_EQ(executed.size(), 12U);
}

TEST(Plan, UnevenExpertsArePlanned) {
  const auto six = plan({"--routes", "uniform", "--experts", "160", "--topk", "8", "--ranks", "6"});
  EXPECT_NE(six.out.find("(27 27 27 27 26 26 by rank)"), std::string::npos) << six.out;
  const auto three =
      plan({"--routes", "uniform", "--experts", "256", "--topk", "8", "--ranks", "3"});
  EXPECT_NE(three.out.find("(86 85 85 by rank)"), std::string::npos) << three.out;
}

TEST(Plan, ReportsFitEightyColumns) {
  for (const auto& options :
       std::vector<std::vector<std::string>>{{qwen3, "--peer-order", "2,0,3,1"},
                                             {qwen3, "--route", "r05"},
                                             {"--routes", "zipf", "--experts", "64", "--topk", "8",
                                              "--tokens", "100000", "--ranks", "16"},
                                             {"--routes", "uniform", "--experts", "512", "--topk",
                                              "1", "--ranks", "64", "--nodes", "8"}}) {
    const Finished finished = plan(options);
    EXPECT_EQ(finished.exit, 0) << finished.err;
    EXPECT_LE(longest_line(finished.out), 80U) << finished.out;
  }
}

TEST(Plan, RefusesWhatItCannotPlan) {
  const auto code = [](const std::vector<std::string>& options) {
    auto with_json = options;
    with_json.emplace_back("--json");
    const Finished finished = plan(with_json);
    EXPECT_EQ(finished.exit, 2) << finished.out;
    return finished.json()["error"]["code"].get<std::string>();
  };
  EXPECT_EQ(code({}), "UsageError");
  EXPECT_EQ(code({qwen3, "--routes", "uniform"}), "UsageError");
  EXPECT_EQ(code({"--routes", "gaussian", "--experts", "4", "--topk", "1"}), "UsageError");
  EXPECT_EQ(code({"--routes", "uniform", "--experts", "4", "--topk", "5"}), "TopKExceedsExperts");
  EXPECT_EQ(code({"--routes", "uniform", "--experts", "0", "--topk", "1"}), "InvalidValue");
  // Sizes whose plans would not fit any machine.
  EXPECT_EQ(code({"--routes", "uniform", "--experts", "65536", "--topk", "1", "--ranks", "4096"}),
            "UsageError");
  EXPECT_EQ(code({"--routes", "uniform", "--experts", "65536", "--topk", "65536", "--tokens",
                  "16777216", "--ranks", "1"}),
            "UsageError");
  EXPECT_EQ(code({qwen3, "--route", "r256"}), "InvalidValue");
  EXPECT_EQ(code({qwen3, "--route", "five"}), "InvalidValue");
  EXPECT_EQ(code({qwen3, "--tokens", "0", "--route", "r0"}), "InvalidValue");
}

// Three ranks on two nodes, and their groups.
struct MachineFiles {
  TemporaryFolder folder;
  nlohmann::json groups = {
      {"schema", "waybill-groups-1"},
      {"topology_version", "t1"},
      {"collective_epoch", 5},
      {"groups",
       {{{"id", "all"}, {"kind", "full_ep"}, {"peer_order", {2, 0, 1}}},
        {{"id", "near"}, {"kind", "node_local"}, {"node", "a"}, {"peer_order", {1, 0}}}}}};
  nlohmann::json topology = {
      {"schema", "waybill-topology-1"},
      {"topology_version", "t1"},
      {"ranks",
       {{{"rank", 0}, {"node", "a"}}, {{"rank", 1}, {"node", "a"}}, {{"rank", 2}, {"node", "b"}}}}};

  std::vector<std::string> options(bool with_groups) const {
    std::vector<std::string> all{
        "--routes", "uniform",  "--experts", "6",          "--topk",
        "2",        "--tokens", "9",         "--topology", folder.write("t.json", topology.dump())};
    if (with_groups) {
      all.insert(all.end(), {"--groups", folder.write("g.json", groups.dump())});
    }
    return all;
  }
};

std::vector<std::string> with(std::vector<std::string> options, std::vector<std::string> more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

TEST(PlanTopology, GivesRanksNodesAndPeerOrder) {
  MachineFiles files;
  const auto alone = report(files.options(false));
  EXPECT_EQ(alone["options"]["ranks"], 3);
  EXPECT_EQ(alone["options"]["nodes"], 2);
  EXPECT_EQ(alone["peer_order"], (nlohmann::json{0, 1, 2}));
  EXPECT_EQ(report(files.options(true))["peer_order"], (nlohmann::json{2, 0, 1}));
  files.topology["collective_epoch"] = files.groups["collective_epoch"];
  files.topology["groups"] = files.groups["groups"];
  EXPECT_EQ(report(files.options(false))["peer_order"], (nlohmann::json{2, 0, 1}));
  EXPECT_EQ(report(with(files.options(false), {"--ranks", "3", "--nodes", "2"}))["options"],
            report(files.options(false))["options"]);
}

TEST(PlanTopology, ContradictionsAreTypedErrors) {
  const MachineFiles files;
  const auto expect_refused = [](const std::vector<std::string>& options, const char* code,
                                 const char* named) {
    const Finished finished = plan(options);
    EXPECT_EQ(finished.exit, 2);
    EXPECT_NE(finished.err.find(code), std::string::npos) << finished.err;
    EXPECT_NE(finished.err.find(named), std::string::npos) << finished.err;
  };
  expect_refused(with(files.options(false), {"--ranks", "4"}), "UsageError", "--ranks");
  expect_refused(with(files.options(false), {"--nodes", "1"}), "UsageError", "t.json");
  expect_refused(with(files.options(true), {"--peer-order", "0,1,2"}), "UsageError",
                 "--peer-order");
  expect_refused({"--routes", "uniform", "--experts", "6", "--topk", "2", "--groups", "g.json"},
                 "UsageError", "--topology");
  const auto placed_for = [&](const char* group) {
    const nlohmann::json placement = {{"placement_version", "p"},
                                      {"process_group_id", group},
                                      {"experts_by_rank", {{0, 1}, {2, 3}, {4, 5}}}};
    return with(files.options(true),
                {"--placement", files.folder.write("p.json", placement.dump())});
  };
  EXPECT_EQ(report(placed_for("all"))["peer_order"], (nlohmann::json{2, 0, 1}));
  expect_refused(placed_for("others"), "ProcessGroupMismatch", "g.json");
  expect_refused(placed_for("near"), "GroupShapeMismatch", "g.json");
}

TEST(PlanTopology, OfAnotherVersionThanTheGroupsIsRefused) {
  MachineFiles files;
  files.groups["topology_version"] = "t2";
  EXPECT_NE(plan(files.options(true)).err.find("ReleaseTupleMismatch"), std::string::npos);
}

}  // namespace
}  // namespace waybill::testing
