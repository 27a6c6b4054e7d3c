// Topology and groups manifests: what is read is what was written, and every fault has its code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/fault.h"
#include "topology/manifest_checks.h"

namespace waybill {
namespace {

using ::testing::ElementsAre;
using testing::fault;
using ::testing::IsEmpty;
using Json = nlohmann::ordered_json;
using Edit = std::function<void(Json&)>;

std::string page() {
  std::ifstream file(std::string(WAYBILL_TEST_DATA) + "/../../docs/topology-manifest.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The example under a heading of docs/topology-manifest.md.
Json documented(const std::string& heading) {
  const std::string text = page();
  const std::size_t begin = text.find("```json\n", text.find(heading)) + 8;
  return Json::parse(text.substr(begin, text.find("```", begin) - begin));
}

Json topology_example() { return documented("## Topology"); }
Json groups_example() { return documented("## Groups"); }

// Both examples as one file.
Json joint_example() {
  Json joint = topology_example();
  joint["collective_epoch"] = 12;
  joint["groups"] = groups_example()["groups"];
  return joint;
}

TopologyManifest parse(const Json& json) { return parse_topology_manifest(json.dump(), "t.json"); }

// Codes of all faults, each with the file.
std::vector<Code> faults_of(const Json& json) {
  const JsonDocument document = JsonDocument::parse(json.dump(), "t.json");
  std::vector<Code> codes;
  const Faults faults = Faults::collect([&](Faults& found) {
    json.contains("ranks") ? void(read_topology_manifest(document, found))
                           : void(read_groups_manifest(document, nullptr, found));
  });
  for (const Error& error : faults.all()) {
    EXPECT_EQ(error.coordinate("file"), "t.json") << error.what();
    codes.push_back(error.code());
  }
  return codes;
}

TEST(TopologyManifest, NoRanksAreAFaultOfTheFile) {
  Json json = topology_example();
  json["ranks"] = Json::array();
  const Error error = fault([&] { parse(json); });
  EXPECT_EQ(error.code(), Code::InvalidValue);
  EXPECT_EQ(error.coordinate("file"), "t.json");
  EXPECT_EQ(error.coordinate("field"), "ranks");
}

TEST(TopologyManifest, ExampleOfThePageIsRead) {
  const TopologyManifest manifest = parse(joint_example());
  EXPECT_EQ(manifest.version, TopologyVersion("topology-v3"));
  EXPECT_EQ(manifest.ranks[3].nic_via, Rank{2});
  const Topology topology = manifest.topology();
  EXPECT_EQ(topology.nodes(), 2);
  EXPECT_EQ(topology.node_name(topology.node_of(Rank{2})), "node-1");
  const ProcessGroup group = manifest.groups->group(ProcessGroupId("ep-group-0"));
  EXPECT_EQ(group.epoch(), GroupEpoch{12});
  EXPECT_EQ(group.peer_of(Rank{3}), PeerSlot{2});
  EXPECT_EQ(fault([&] { manifest.groups->group(ProcessGroupId("none")); }).code(),
            Code::ProcessGroupMismatch);
}

TEST(TopologyManifest, WrittenTextReadsBackEqual) {
  for (const Json& json : {topology_example(), joint_example()}) {
    const std::string written = topology_manifest(parse(json));
    EXPECT_EQ(topology_manifest(parse_topology_manifest(written, "w.json")), written);
    EXPECT_EQ(Json::parse(written)["nodes"], json["nodes"]);
  }
  const GroupsManifest groups = parse_groups_manifest(groups_example().dump(), "g.json");
  const std::string written = groups_manifest(groups);
  EXPECT_EQ(groups_manifest(parse_groups_manifest(written, "w.json")), written);
}

TEST(TopologyManifest, RanksAloneAreEnough) {
  const TopologyManifest manifest = parse(Json::parse(
      R"({"topology_version": "t", "ranks": [
          {"rank": 2, "node": "a", "nic": "n", "relay": true}, {"rank": 0, "node": "b"},
          {"rank": 1, "node": "a"}]})"));
  ASSERT_EQ(manifest.nodes.size(), 2U);
  EXPECT_EQ(manifest.nodes[0].name, "b") << "the node of rank 0";
  EXPECT_THAT(manifest.nodes[1].members, ElementsAre(Rank{1}, Rank{2}));
  EXPECT_EQ(manifest.nodes[1].relay, Rank{2});
  EXPECT_EQ(manifest.nics[0].node, "a");
}

TEST(TopologyManifest, EachFaultHasItsCode) {
  const std::vector<std::pair<Code, Edit>> faults{
      {Code::MissingField, [](Json& t) { t.erase("topology_version"); }},
      {Code::MissingField, [](Json& t) { t.erase("ranks"); }},
      {Code::MissingField, [](Json& t) { t["ranks"][1].erase("node"); }},
      {Code::MissingField, [](Json& t) { t["groups"][1].erase("node"); }},
      {Code::MissingField, [](Json& t) { t.erase("collective_epoch"); }},
      {Code::InvalidValue, [](Json& t) { t["topology_version"] = ""; }},
      {Code::InvalidValue, [](Json& t) { t["ranks"][1]["node"] = std::string(257, 'x'); }},
      {Code::InvalidValue, [](Json& t) { t["ranks"][1]["rank"] = -1; }},
      {Code::InvalidValue, [](Json& t) { t["ranks"][1]["rank"] = 1 << 20; }},
      {Code::InvalidValue, [](Json& t) { t["groups"][0]["kind"] = "tensor"; }},
      {Code::DocumentMalformed, [](Json& t) { t["ranks"][1]["rank"] = "inf"; }},
      {Code::DocumentMalformed, [](Json& t) { t["ranks"][0]["relay"] = 1; }},
      {Code::UnknownSchema, [](Json& t) { t["schema"] = "waybill-topology-2"; }},
      {Code::DomainNotPartition, [](Json& t) { t["ranks"][1]["node"] = "node-1"; }},
      {Code::DomainNotPartition, [](Json& t) { t["ranks"][1]["rank"] = 0; }},
      {Code::DomainNotPartition, [](Json& t) { t["ranks"].erase(1); }},
      {Code::DomainNotPartition, [](Json& t) { t["ranks"][1]["node"] = "node-9"; }},
      {Code::DomainNotPartition,
       [](Json& t) {
         t["nodes"][1]["members"] = {1, 2, 3};
       }},
      {Code::DomainNotPartition, [](Json& t) { t["nodes"][1]["members"] = {2}; }},
      {Code::DomainNotPartition,
       [](Json& t) {
         t["nodes"][1]["members"] = {2, 3, 3};
       }},
      {Code::DomainNotPartition,
       [](Json& t) {
         t["nodes"][1]["members"] = {2, 3, 4};
       }},
      {Code::DomainNotPartition, [](Json& t) { t["nodes"][1]["node"] = "node-0"; }},
      {Code::NicOwnershipMismatch, [](Json& t) { t["ranks"][3]["nic"] = "nic-0"; }},
      {Code::NicOwnershipMismatch, [](Json& t) { t["ranks"][3]["nic"] = "nic-7"; }},
      {Code::NicOwnershipMismatch, [](Json& t) { t["ranks"][3]["nic_via"] = 0; }},
      {Code::NicOwnershipMismatch, [](Json& t) { t["nics"][0]["direct_rank"] = 2; }},
      {Code::NicOwnershipMismatch, [](Json& t) { t["nics"][0]["node"] = "node-1"; }},
      {Code::NicOwnershipMismatch, [](Json& t) { t["nodes"][0]["nic"] = "nic-1"; }},
      {Code::DuplicateKey, [](Json& t) { t["nics"].push_back(t["nics"][0]); }},
      {Code::DuplicateKey, [](Json& t) { t["groups"][2]["id"] = "ep-node-0"; }},
      {Code::RelayNotMember, [](Json& t) { t["nodes"][0]["relay_rank"] = 2; }},
      {Code::RelayNotMember, [](Json& t) { t["ranks"][1]["relay"] = true; }},
      {Code::RankOutsideGroup,
       [](Json& t) {
         t["groups"][0]["peer_order"] = {2, 0, 3};
       }},
      {Code::RankOutsideGroup,
       [](Json& t) {
         t["groups"][0]["peer_order"] = {2, 0, 3, 4};
       }},
      {Code::PeerOrderInvalid,
       [](Json& t) {
         t["groups"][0]["peer_order"] = {2, 0, 3, 1, 1};
       }},
      {Code::PeerOrderInvalid, [](Json& t) { t["groups"][3]["peer_order"] = Json::array(); }},
      {Code::LocalGroupCrossesNode,
       [](Json& t) {
         t["groups"][1]["peer_order"] = {1, 2};
       }},
      {Code::LocalGroupCrossesNode, [](Json& t) { t["groups"][1]["node"] = "node-9"; }},
      {Code::LocalGroupCrossesNode, [](Json& t) { t["nodes"][0]["local_group"] = "ep-relays"; }},
      {Code::RelayGroupHasNonRelay,
       [](Json& t) {
         t["groups"][3]["peer_order"] = {2, 1};
       }},
      {Code::RelayGroupHasNonRelay, [](Json& t) { t["nodes"][0].erase("relay_rank"); }},
      {Code::CollectiveEpochMismatch, [](Json& t) { t["groups"][2]["collective_epoch"] = 13; }},
  };
  EXPECT_THAT(faults_of(joint_example()), IsEmpty());
  for (std::size_t i = 0; i < faults.size(); ++i) {
    Json broken = joint_example();
    faults[i].second(broken);
    EXPECT_EQ(fault([&] { parse(broken); }).code(), faults[i].first) << "fault " << i;
    if (broken.contains("ranks")) {
      EXPECT_THAT(faults_of(broken), ::testing::Contains(faults[i].first)) << "fault " << i;
    }
  }
}

TEST(TopologyManifest, EveryFaultIsListed) {
  Json broken = joint_example();
  broken["topology_version"] = "";
  broken["ranks"][3]["nic"] = "nic-0";
  broken["nodes"][0]["relay_rank"] = 2;
  broken["groups"][1]["peer_order"] = {1, 2};
  broken["groups"][2]["collective_epoch"] = 13;
  EXPECT_THAT(faults_of(broken),
              ElementsAre(Code::InvalidValue, Code::RelayNotMember, Code::NicOwnershipMismatch,
                          Code::CollectiveEpochMismatch, Code::LocalGroupCrossesNode,
                          Code::RelayGroupHasNonRelay));
}

TEST(TopologyManifest, AFileThatIsWrongEverywhereIsListedInPart) {
  Json broken = joint_example();
  for (int i = 0; i < 1000; ++i) broken["ranks"].push_back("rank");
  EXPECT_EQ(faults_of(broken).size(), Faults::most);
}

TEST(GroupsManifest, NumberOfGroupsIsBounded) {
  Json groups = groups_example();
  for (int i = 0; i < (1 << 14); ++i) groups["groups"].push_back(groups["groups"][0]);
  EXPECT_EQ(fault([&] { parse_groups_manifest(groups.dump(), "g.json"); }).code(),
            Code::InvalidValue);
}

TEST(GroupsManifest, BelongsToOneTopology) {
  Json groups = groups_example();
  const TopologyManifest topology = parse(topology_example());
  EXPECT_EQ(parse_groups_manifest(groups.dump(), "g.json", &topology).table.groups.size(), 4U);
  groups["topology_version"] = "topology-v2";
  EXPECT_EQ(fault([&] { parse_groups_manifest(groups.dump(), "g.json", &topology); }).code(),
            Code::ReleaseTupleMismatch);
  groups["topology_version"] = "topology-v3";
  groups["groups"][3]["peer_order"] = {2, 3};
  EXPECT_NO_THROW(parse_groups_manifest(groups.dump(), "g.json")) << "relays aren't known";
  EXPECT_EQ(fault([&] { parse_groups_manifest(groups.dump(), "g.json", &topology); }).code(),
            Code::RelayGroupHasNonRelay);
}

TEST(TopologyManifest, CutShortItIsMalformedAtEveryLength) {
  const std::string text = topology_manifest(parse(joint_example()));
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_EQ(fault([&] { parse_topology_manifest(text.substr(0, length), "t.json"); }).code(),
              Code::DocumentMalformed);
  }
}

}  // namespace
}  // namespace waybill
