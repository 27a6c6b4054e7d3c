// waybill verify: every kind of file by itself and beside others, and what it makes of wrong ones.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/broken_checkpoint.h"
#include "cli/process.h"
#include "support/temporary_folder.h"

namespace waybill::testing {
namespace {

using Json = nlohmann::ordered_json;

const std::string data = WAYBILL_TEST_DATA;

Finished verify(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "verify");
  return execute(WAYBILL_COMMAND, arguments);
}

// The first example under a heading of a page of docs/.
Json documented(const std::string& page, const std::string& heading) {
  std::ifstream file(data + "/../../docs/" + page);
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::size_t begin = all.find("```json\n", all.find(heading)) + 8;
  return Json::parse(all.substr(begin, all.find("```", begin) - begin));
}

// The manifests of one system of four ranks.
struct Manifests {
  TemporaryFolder folder;
  Json topology = documented("topology-manifest.md", "## Topology");
  Json groups = documented("topology-manifest.md", "## Groups");
  Json placement = Json::parse(std::ifstream(data + "/conformance/placement_v17.json"));

  Manifests() { placement["schema"] = "waybill-placement-1"; }
  std::vector<std::string> write() const {
    return {folder.write("t.json", topology.dump()), folder.write("g.json", groups.dump()),
            folder.write("p.json", placement.dump())};
  }
};

std::vector<std::string> with_json(std::vector<std::string> files) {
  files.emplace_back("--json");
  return files;
}

std::string codes(const Finished& finished) {
  std::string text;
  const nlohmann::json report = finished.json();
  for (const auto& violation : report.at("violations")) {
    text += violation.at("code").get<std::string>() + ' ';
  }
  return text;
}

TEST(Verify, RightFilesOfEveryKindAreRight) {
  const Manifests manifests;
  std::vector<std::string> files = manifests.write();
  const std::string checkpoint = data + "/checkpoints/mixtral";
  for (const char* name : {"", "/config.json", "/model.safetensors"}) {
    files.push_back(checkpoint + name);
  }
  const Finished finished = verify(files);
  EXPECT_EQ(finished.exit, 0) << finished.out << finished.err;
  EXPECT_LE(longest_line(finished.out), 200U) << finished.out;  // a path is never broken
  for (const char* kind : {"topology manifest", "groups manifest", "placement manifest",
                           "checkpoint folder", "model configuration", "safetensors file"}) {
    EXPECT_NE(finished.out.find(std::string("kind        ") + kind), std::string::npos) << kind;
  }
  EXPECT_EQ(verify(with_json(files)).json().at("violations").size(), 0U);
}

TEST(Verify, TheKindIsToldByTheFileAndNotByItsName) {
  const Manifests manifests;
  const std::string topology =
      manifests.folder.write("weights.safetensors", manifests.topology.dump());
  EXPECT_EQ(verify({topology}).exit, 0);
  const auto code_of = [&](std::string_view bytes) {
    const Finished finished = verify({manifests.folder.write("placement.json", bytes), "--json"});
    EXPECT_EQ(finished.exit, 2) << bytes;
    return codes(finished);
  };
  EXPECT_EQ(code_of(R"({"schema": "waybill-bundle-9"})"), "UnknownSchema ");
  EXPECT_EQ(code_of(R"({"schema": 1})"), "UnknownSchema ");
  EXPECT_EQ(code_of(R"({"slots": []})"), "UnknownSchema ");
  EXPECT_EQ(code_of("[]"), "UnknownSchema ");
  EXPECT_EQ(code_of(""), "DocumentMalformed ");
  EXPECT_EQ(code_of("not JSON"), "DocumentMalformed ");
  EXPECT_EQ(codes(verify({"/nonexistent", "--json"})), "FileUnreadable ");
  EXPECT_EQ(verify({}).exit, 2);
}

TEST(Verify, EveryFaultOfEveryFileIsListed) {
  Manifests manifests;
  manifests.topology["ranks"][3]["nic"] = "nic-0";
  manifests.topology["nodes"][0]["relay_rank"] = 2;
  manifests.placement["placement_version"] = "";
  manifests.placement["slots"][5]["logical_expert"] = 9;
  manifests.placement["slots"][1]["id"] = "q0";
  manifests.placement["slots"][2]["rank"] = "inf";
  const Finished finished = verify(with_json(manifests.write()));
  EXPECT_EQ(finished.exit, 1);
  EXPECT_EQ(codes(finished),
            "RelayNotMember NicOwnershipMismatch "
            "InvalidValue DocumentMalformed LogicalExpertMismatch DuplicateSlotId ");
  const auto violations = finished.json().at("violations");
  EXPECT_EQ(violations[4].at("where").at("field"), "slots[5].logical_expert");
  EXPECT_EQ(violations[4].at("found"), "9");
  const Finished text = verify(manifests.write());
  EXPECT_NE(text.out.find("WRONG: 4 faults"), std::string::npos) << text.out;
  EXPECT_TRUE(text.err.empty());
}

TEST(Verify, AFileWithoutRanksOrLayersLeavesTheOthersTheirReport) {
  Manifests manifests;
  manifests.topology["ranks"] = Json::array();
  manifests.placement.erase("slots");
  manifests.placement["layers"] = Json::array();
  const Finished finished = verify(with_json(manifests.write()));
  EXPECT_EQ(finished.exit, 1) << finished.err;
  EXPECT_EQ(codes(finished), "InvalidValue InvalidValue ");
  const nlohmann::json report = finished.json();
  EXPECT_EQ(report.at("files").size(), 3U);
  for (const auto& violation : report.at("violations")) {
    EXPECT_TRUE(violation.at("where").contains("file")) << violation;
  }
}

TEST(Verify, EveryFaultOfACheckpointIsListed) {
  const BrokenCheckpoint broken("mixtral");
  const std::string w1 = "model.layers.1.block_sparse_moe.experts.5.w1.weight";
  broken.edit_header(broken.weights(), [&](Json& tensors) {
    for (auto& [name, tensor] : tensors.items()) {
      if (name.ends_with("experts.0.w1.weight")) tensor["shape"] = {64, 96};
    }
  });
  EXPECT_EQ(codes(verify({broken.path(), "--json"})), "ShapeMismatch ShapeMismatch ");

  broken.edit_config([](Json& config) {
    config["num_experts_per_tok"] = 99;
    config["hidden_size"] = -1;
    config["hidden_act"] = "gelu";
  });
  broken.edit_header(broken.weights(), [&](Json& tensors) {
    tensors[w1]["dtype"] = "X1";
    tensors["model.norm.weight"]["shape"] = {-1};
    tensors["model.norm.weight"].erase("dtype");
    tensors["lm_head.weight"]["data_offsets"] = {1, 2, 3};
  });
  const Finished config = verify({broken.config(), "--json"});
  EXPECT_EQ(config.exit, 1);
  EXPECT_EQ(codes(config), "InvalidValue InvalidValue TopKExceedsExperts ");
  const Finished weights = verify({broken.weights(), "--json"});
  EXPECT_EQ(weights.exit, 1);
  EXPECT_EQ(codes(weights), "HeaderMalformed UnknownDtype HeaderMalformed ");
  const Finished folder = verify({broken.path(), "--json"});
  EXPECT_EQ(codes(folder), codes(config) + codes(weights));
}

TEST(Verify, FilesGivenTogetherAreCheckedAgainstOneAnother) {
  Manifests manifests;
  manifests.placement["slots"][0]["domain"] = "node-1";
  manifests.placement["process_group_id"] = "ep-node-1";
  manifests.groups["groups"][3]["peer_order"] = {2, 1};
  const std::vector<std::string> files = manifests.write();
  for (const std::string& file : files) EXPECT_EQ(verify({file}).exit, 0) << file;
  EXPECT_EQ(codes(verify({files[0], files[1], "--json"})), "RelayGroupHasNonRelay ");
  EXPECT_EQ(codes(verify({files[2], files[0], "--json"})), "DomainRankMismatch ");
  manifests.placement["slots"][0]["domain"] = "node-0";
  manifests.groups["groups"][3]["peer_order"] = {2, 0};
  EXPECT_EQ(codes(verify(with_json(manifests.write()))), "RankOutsideGroup RankOutsideGroup ");
  const Finished model = verify({files[2], data + "/checkpoints/mixtral/config.json", "--json"});
  EXPECT_EQ(codes(model), "LogicalCountMismatch ");
}

TEST(Verify, WhatWouldNeedAnotherFileIsNamed) {
  const Manifests manifests;
  const std::vector<std::string> files = manifests.write();
  EXPECT_EQ(verify({files[2], "--json"}).json().at("unchecked").size(), 3U);
  EXPECT_EQ(verify(with_json(files)).json().at("unchecked").size(), 1U) << "no model";
  const Finished two = verify({files[0], files[0], files[1], "--json"});
  EXPECT_EQ(two.exit, 0);
  EXPECT_EQ(two.json().at("unchecked").size(), 1U) << "two topologies: which is meant?";
}

TEST(Verify, ManifestsInsideConformanceFilesAreChecked) {
  const std::string folder = data + "/conformance/";
  const Finished right =
      verify({folder + "placement_v17.json", folder + "topology.json", "--json"});
  EXPECT_EQ(right.exit, 0) << right.out;
  EXPECT_NE(right.out.find("waybill-conformance"), std::string::npos);
}

TEST(Verify, LoadsAndPlacementsOfEverySystemAreChecked) {
  const std::string folder = data + "/load_files/";
  for (const char* file : {"sglang_statistics.json", "sglang_detail", "tensorrt_llm", "megatron"}) {
    const Finished finished = verify({folder + file});
    EXPECT_EQ(finished.exit, 0) << finished.out;
    EXPECT_NE(finished.out.find("loads of experts"), std::string::npos) << finished.out;
  }
  const TemporaryFolder made;
  const std::string vllm = made.write("p.json", "[[0, 1, 2, 0], [1, 0, 2, 2]]");
  for (const std::string& file : {folder + "balancer.yaml", vllm}) {
    const Finished finished = verify({file});
    EXPECT_EQ(finished.exit, 0) << finished.out;
    EXPECT_NE(finished.out.find("placement of another system"), std::string::npos) << finished.out;
  }
  const auto codes_of = [&](std::string_view text) {
    const Finished finished = verify({made.write("f.json", text), "--json"});
    EXPECT_EQ(finished.exit, 1) << text;
    return codes(finished);
  };
  EXPECT_EQ(codes_of(R"({"schema": "waybill-loads-1", "load": [[1, NaN]]})"), "InvalidValue ");
  EXPECT_EQ(codes_of(R"({"sets": [{"set": "a", "load": [[1]]}, {"set": "b", "load": [[-1]]}]})"),
            "InvalidValue ");
  EXPECT_EQ(codes_of(R"({"phy2log": [[0, 1]], "logcnt": [[1, 2]]})"), "PlacementMapMismatch ");
  EXPECT_EQ(codes_of("[[0, 2]]"), "ReplicaCardinalityZero ");
}

TEST(Verify, LoadsAndPlacementsAreCheckedAgainstModelAndTopology) {
  const Manifests manifests;
  const std::string model = data + "/checkpoints/mixtral/config.json";
  const std::string loads = manifests.folder.write("loads.json", R"({"load": [[1, 2]]})");
  EXPECT_EQ(codes(verify({loads, model, "--json"})), "LogicalCountMismatch ");
  const std::string topology = manifests.write()[0];
  const std::string unequal = manifests.folder.write("p.json", "[[0, 1, 2, 0, 1]]");
  EXPECT_EQ(codes(verify({unequal, topology, "--json"})), "SlotsNotEqual ");
  EXPECT_EQ(verify({unequal}).exit, 0);
}

// Mutations of the reference text's failure lab that lie in what a topology manifest holds.
TEST(Verify, TopologyMutationsHaveTheirCodes) {
  const Json lab = Json::parse(std::ifstream(data + "/conformance/failures.json"));
  const TemporaryFolder folder;
  int tried = 0;
  for (const Json& mutation : lab.at("mutations")) {
    const auto target = mutation.at("json_pointer").get<std::string>();
    const std::string pointer = target.substr(target.find('#') + 1);
    if (!target.starts_with("topology.json#")) continue;
    if (!pointer.starts_with("/ranks") && !pointer.starts_with("/nodes") &&
        !pointer.starts_with("/groups")) {
      continue;
    }
    Json topology = Json::parse(std::ifstream(data + "/conformance/topology.json"));
    topology[Json::json_pointer(pointer)] = mutation.at("to");
    const Finished finished = verify({folder.write("t.json", topology.dump()), "--json"});
    EXPECT_EQ(finished.exit, 1) << target;
    EXPECT_NE(codes(finished).find(mutation.at("expected_error").get<std::string>()),
              std::string::npos)
        << target << ": " << codes(finished);
    ++tried;
  }
  EXPECT_GE(tried, 6);
}

TEST(Verify, HostileNamesDoNotSteerTheTerminal) {
  Manifests manifests;
  manifests.placement["slots"][1]["id"] = manifests.placement["slots"][0]["id"] = "\x1b[2J\nq";
  const Finished finished = verify({manifests.write()[2]});
  EXPECT_EQ(finished.exit, 1);
  EXPECT_EQ(finished.out.find('\x1b'), std::string::npos);
}

TEST(Verify, DamagedWeightsAreFoundBeforeLoading) {
  const TemporaryFolder folder;
  std::ifstream file(data + "/checkpoints/mixtral/model.safetensors", std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  const std::string cut = folder.write("m", bytes.str().substr(0, bytes.str().size() - 1));
  const Finished finished = verify({cut, "--json"});
  EXPECT_EQ(finished.exit, 1);
  EXPECT_EQ(codes(finished), "FileTruncated ");
  const std::string index =
      folder.write("i.json", R"({"weight_map": {"a": "m", "b": "../secret"}})");
  EXPECT_EQ(codes(verify({index, "--json"})), "InvalidValue FileTruncated ");
}

}  // namespace
}  // namespace waybill::testing
