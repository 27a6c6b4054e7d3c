#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <sstream>

#include "placement/fixture.h"
#include "placement/manifest_checks.h"
#include "support/fault.h"

namespace waybill {
namespace {

using testing::conformance;
using ::testing::ElementsAre;
using testing::fault;
using testing::fixture_generation;

constexpr std::array two_layers{LayerId{1}, LayerId{3}};

Generation parse(std::string_view text, std::int32_t experts = 4, std::int32_t ranks = 2) {
  return parse_placement_manifest(text, "m.json", experts, ranks, two_layers);
}

void expect_equal(const Generation& a, const Generation& b) {
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.number, b.number);
  EXPECT_EQ(a.checkpoint, b.checkpoint);
  EXPECT_EQ(a.group, b.group);
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (const auto& [id, left] : a.layers) {
    const Placement& right = b.layer(id);
    ASSERT_EQ(left->slots(), right.slots());
    ASSERT_EQ(left->ranks(), right.ranks());
    for (std::int32_t q = 0; q < right.slots(); ++q) {
      const Slot& x = left->slot(SlotId{q});
      const Slot& y = right.slot(SlotId{q});
      EXPECT_EQ(x.name, y.name);
      EXPECT_EQ(x.expert, y.expert);
      EXPECT_EQ(x.replica, y.replica);
      EXPECT_EQ(x.rank, y.rank);
      EXPECT_EQ(x.domain, y.domain);
      EXPECT_EQ(x.checkpoint, y.checkpoint);
      EXPECT_EQ(x.parameter_digest, y.parameter_digest);
    }
  }
}

Generation reread(const Generation& generation) {
  std::vector<LayerId> layers;
  for (const auto& [id, placement] : generation.layers) layers.push_back(id);
  const Placement& first = *generation.layers.begin()->second;
  return parse_placement_manifest(placement_manifest(generation), "written.json", first.experts(),
                                  first.ranks(), layers);
}

// Coordinates of the error that a manifest causes.
struct Fault {
  Code code;
  std::string field;
};
Fault fault_of(std::string_view text) {
  const Error error = fault([&] { parse(text); });
  EXPECT_EQ(error.coordinate("file"), "m.json") << error.what();
  return {error.code(), std::string(error.coordinate("field"))};
}

TEST(PlacementManifest, ReadsTheFixture) {
  const Generation generation = fixture_generation();
  EXPECT_EQ(generation.version, PlacementVersion("placement-v17"));
  EXPECT_EQ(generation.number, 17U);
  EXPECT_EQ(generation.group, ProcessGroupId("ep-group-0"));
  const Placement& placement = generation.layer(LayerId{0});
  const JsonDocument document = conformance("placement_v17.json");
  for (const JsonValue list : document.root().at("rho").members()) {
    const ExpertId expert{std::stoi(std::string(list.key()))};
    std::vector<std::string> names;
    for (SlotId q : placement.replicas(expert)) names.push_back(placement.slot(q).name);
    std::vector<std::string> expected;
    for (const JsonValue name : list.elements()) expected.emplace_back(name.as_string());
    EXPECT_EQ(names, expected);
  }
  for (const JsonValue list : document.root().at("slots_by_rank").members()) {
    std::vector<std::string> names, expected;
    for (SlotId q : placement.slots_on(Rank{std::stoi(std::string(list.key()))})) {
      names.push_back(placement.slot(q).name);
    }
    for (const JsonValue name : list.elements()) expected.emplace_back(name.as_string());
    EXPECT_EQ(names, expected);
  }
  EXPECT_EQ(placement.slot(SlotId{1}).parameter_digest, "expert-0-state-v42");
}

TEST(PlacementManifest, ReadsTheKeyNamesOfTheReferenceText) {
  const Generation generation = parse(R"({
    "placement_version": "placement-v17", "generation": 17, "state": "DRAINING",
    "process_group_id": "ep-group-0", "checkpoint_version": "checkpoint-0042",
    "in_flight_refcount": 1,
    "slots": [
      {"physical_slot_id": "q1", "logical_expert_id": 0, "replica_id": "e0-r1",
       "destination_rank": 1, "topology_domain_id": "node-0",
       "parameter_digest": "expert-0-state-v42"},
      {"physical_slot_id": "q2", "logical_expert_id": 1, "destination_rank": 0, "checkpoint_version": "checkpoint-0042"}
    ]})",
                                      2);
  const Placement& placement = generation.layer(LayerId{3});
  EXPECT_EQ(placement.slot(SlotId{0}).replica, "e0-r1");
  EXPECT_EQ(placement.slot(SlotId{0}).checkpoint, CheckpointVersion("checkpoint-0042"));
  EXPECT_EQ(placement.slot(SlotId{1}).replica, "e1-r0");
  EXPECT_EQ(&placement, &generation.layer(LayerId{1})) << "one placement serves all layers";
}

TEST(PlacementManifest, ReadsExpertsByRank) {
  const Generation generation =
      parse(R"({"placement_version": "v1", "experts_by_rank": [[0, 1, 3], [2, 0]]})");
  const Placement& placement = generation.layer(LayerId{1});
  EXPECT_THAT(placement.replicas(ExpertId{0}), ElementsAre(SlotId{0}, SlotId{4}));
  EXPECT_EQ(placement.slots_on(Rank{1}).size(), 2U);
}

TEST(PlacementManifest, ReadsAPlacementPerLayer) {
  const Generation generation = parse(R"({"placement_version": "v1", "layers": [
      {"layer": 3, "experts_by_rank": [[0, 1], [2, 3]]},
      {"layer": 1, "slots": [{"logical_expert": 3, "rank": 0}, {"logical_expert": 2, "rank": 0},
                             {"logical_expert": 1, "rank": 0}, {"logical_expert": 0, "rank": 1}]}
    ]})");
  EXPECT_EQ(generation.layer(LayerId{3}).slots_on(Rank{1}).size(), 2U);
  EXPECT_EQ(generation.layer(LayerId{1}).slots_on(Rank{1}).size(), 1U);
}

TEST(PlacementManifest, WrittenTextReadsBackEqual) {
  expect_equal(reread(fixture_generation()), fixture_generation());
  const Generation plain =
      parse(R"({"placement_version": "v\"1", "generation": 4, "checkpoint_version": "c",
                "experts_by_rank": [[0, 1, 3], [2, 0]]})");
  expect_equal(reread(plain), plain);
  EXPECT_NE(placement_manifest(plain).find("\"experts_by_rank\": [\n  [0,1,3]"), std::string::npos);
  const Generation layered = parse(R"({"placement_version": "v1", "layers": [
      {"layer": 3, "experts_by_rank": [[0, 1], [2, 3]]},
      {"layer": 1, "slots": [{"id": "a", "logical_expert": 3, "rank": 1},
                             {"id": "b", "logical_expert": 2, "rank": 0},
                             {"id": "c", "logical_expert": 1, "rank": 0},
                             {"id": "d", "logical_expert": 0, "rank": 1}]}]})");
  expect_equal(reread(layered), layered);
}

// The first example of docs/placement-manifest.md that starts with `opening`.
std::string documented_example(const std::string& heading) {
  std::ifstream page(std::string(WAYBILL_TEST_DATA) + "/../../docs/placement-manifest.md");
  std::stringstream text;
  text << page.rdbuf();
  const std::string all = text.str();
  const std::size_t section = all.find(heading);
  const std::size_t begin = all.find("```json\n", section);
  const std::size_t end = all.find("```", begin + 8);
  EXPECT_NE(section, std::string::npos);
  EXPECT_NE(end, std::string::npos);
  return all.substr(begin + 8, end - begin - 8);
}

TEST(PlacementManifest, ExamplesOfThePageAreRead) {
  const Placement lists = parse(documented_example("## Experts by rank")).layer(LayerId{1});
  EXPECT_EQ(lists.slots(), 5);
  const Placement slots = parse(documented_example("## Slots"), 2).layer(LayerId{1});
  EXPECT_EQ(slots.slots(), 3);
  const Generation layers = parse(documented_example("## One placement per layer"));
  EXPECT_EQ(layers.layer(LayerId{1}).slots(), 4);
  EXPECT_EQ(layers.layer(LayerId{3}).slots(), 5);
}

TEST(PlacementManifest, FaultsNameFileAndField) {
  struct Case {
    const char* text;
    Code code;
    const char* field;
  };
  const std::array cases{
      Case{R"({"experts_by_rank": [[0,1],[2,3]]})", Code::MissingField, "placement_version"},
      Case{R"({"placement_version": "v"})", Code::MissingField, "(document)"},
      Case{R"({"placement_version": 3, "experts_by_rank": [[0,1],[2,3]]})", Code::DocumentMalformed,
           "placement_version"},
      Case{R"({"placement_version": "v", "ranks": 3, "experts_by_rank": [[0,1],[2,3]]})",
           Code::RankCountMismatch, "ranks"},
      Case{R"({"placement_version": "v", "logical_experts": 5, "experts_by_rank": [[0,1],[2,3]]})",
           Code::LogicalCountMismatch, "logical_experts"},
      Case{R"({"placement_version": "v", "experts_by_rank": [[0,1,2,3]]})", Code::RankCountMismatch,
           "experts_by_rank"},
      Case{R"({"placement_version": "v", "experts_by_rank": [[0,1],[2,4]]})",
           Code::LogicalExpertMismatch, "experts_by_rank[1][1]"},
      Case{R"({"placement_version": "v", "experts_by_rank": [[0,1],[2,-1]]})",
           Code::LogicalExpertMismatch, "experts_by_rank[1][1]"},
      Case{R"({"placement_version": "v", "experts_by_rank": [[0,1],[2,2]]})",
           Code::ReplicaCardinalityZero, "experts_by_rank"},
      Case{R"({"placement_version": "v", "experts_by_rank": null})", Code::DocumentMalformed,
           "experts_by_rank"},
      Case{R"({"placement_version": "v", "experts_by_rank": [[0,1,2,3],[]]})", Code::TooManyRanks,
           "experts_by_rank"},
      Case{R"({"placement_version": "v", "experts_by_rank": [], "slots": []})", Code::DuplicateKey,
           "experts_by_rank"},
      Case{R"({"placement_version": "v", "slots": [{"rank": 0}]})", Code::MissingField, "slots[0]"},
      Case{R"({"placement_version": "v", "slots": [{"logical_expert": 9, "rank": 0}]})",
           Code::LogicalExpertMismatch, "slots[0].logical_expert"},
      Case{R"({"placement_version": "v", "slots": [{"logical_expert": 0, "rank": 2}]})",
           Code::DestinationRankMismatch, "slots[0].rank"},
      Case{R"({"placement_version": "v", "slots": [{"logical_expert": 0, "logical_expert_id": 0,
               "rank": 0}]})",
           Code::DuplicateKey, "slots[0].logical_expert"},
      Case{R"({"placement_version": "v", "checkpoint_version": "c1",
               "slots": [{"logical_expert": 0, "rank": 0, "checkpoint": "c0"}]})",
           Code::CheckpointMismatch, "slots[0].checkpoint"},
      Case{R"({"placement_version": "v", "checkpoint_version": "c1",
               "slots": [{"logical_expert": 0, "rank": 0, "checkpoint": ""}]})",
           Code::CheckpointMismatch, "slots[0].checkpoint"},
      Case{R"({"placement_version": "v", "slots": [{"logical_expert": 0, "rank": 0, "id": ""}]})",
           Code::InvalidValue, "slots[0].id"},
      Case{R"({"placement_version": "v",
               "slots": [{"logical_expert": 0, "rank": 0, "replica_id": ""}]})",
           Code::InvalidValue, "slots[0].replica_id"},
      Case{R"({"placement_version": "v", "layers": [{"layer": 2, "experts_by_rank": [[0],[1]]}]})",
           Code::InvalidValue, "layers[0].layer"},
      Case{R"({"placement_version": "v",
               "layers": [{"layer": 1, "experts_by_rank": [[0,1],[2,3]]}]})",
           Code::MissingField, "layers"},
      Case{R"({"placement_version": "v",
               "layers": [{"layer": 1, "experts_by_rank": [[0,1],[2,3]]},
                          {"layer": 1, "experts_by_rank": [[0,1],[2,3]]}]})",
           Code::DuplicateKey, "layers[1].layer"},
      Case{R"({"placement_version": "v", "generation": -1, "experts_by_rank": [[0,1],[2,3]]})",
           Code::InvalidValue, "generation"},
      Case{R"({"placement_version": "", "experts_by_rank": [[0,1],[2,3]]})", Code::InvalidValue,
           "placement_version"},
      Case{R"({"placement_version": "v", "generation": "inf", "experts_by_rank": [[0,1],[2,3]]})",
           Code::DocumentMalformed, "generation"},
      Case{R"({"placement_version": "v", "experts_by_rank": [[0,1],[2,"3"]]})",
           Code::DocumentMalformed, "experts_by_rank[1][1]"},
      Case{R"({"schema": "waybill-placement-2", "placement_version": "v",
               "experts_by_rank": [[0,1],[2,3]]})",
           Code::UnknownSchema, "schema"},
  };
  for (const Case& test : cases) {
    const Fault found = fault_of(test.text);
    EXPECT_EQ(found.code, test.code) << test.text;
    EXPECT_EQ(found.field, test.field) << test.text;
  }
}

TEST(PlacementManifest, SlotsThatNameTheCheckpointAllNameTheSame) {
  const auto with = [](std::string_view first, std::string_view second, std::string_view third) {
    return fmt::format(R"({{"placement_version": "v", "layers": [
        {{"layer": 1, "slots": [{{"logical_expert": 0, "rank": 0{}}},
                                {{"logical_expert": 1, "rank": 1{}}}]}},
        {{"layer": 3, "slots": [{{"logical_expert": 1, "rank": 0{}}},
                                {{"logical_expert": 0, "rank": 1{}}}]}}]}})",
                       first, second, third, third);
  };
  const auto mismatch_at = [](const std::string& text) {
    const Error error = fault([&] { parse(text, 2); });
    EXPECT_EQ(error.code(), Code::CheckpointMismatch) << text;
    return std::string(error.coordinate("field"));
  };
  constexpr std::string_view a = R"(, "checkpoint": "a")", b = R"(, "checkpoint_version": "b")";
  EXPECT_EQ(mismatch_at(with(a, b, a)), "layers[0].slots[1].checkpoint_version");
  EXPECT_EQ(mismatch_at(with(a, a, b)), "layers[1].slots[0].checkpoint_version");
  EXPECT_EQ(mismatch_at(with("", a, a)), "layers[0].slots[0]");
  EXPECT_EQ(mismatch_at(with(a, a, "")), "layers[1].slots[0]");
  const Generation same = parse(with(a, a, a), 2);
  EXPECT_EQ(same.checkpoint, CheckpointVersion("a"));
  expect_equal(reread(same), same);
  EXPECT_EQ(parse(with("", "", ""), 2).checkpoint, CheckpointVersion());
}

std::vector<Error> faults_of_use(const char* text, const ManifestUse& use) {
  return Faults::collect([&](Faults& faults) {
           read_placement_manifest(JsonDocument::parse(text, "m.json"), use, faults);
         })
      .all();
}

TEST(PlacementManifest, EveryFaultIsListed) {
  const auto faults = faults_of_use(R"({"placement_version": "", "generation": "first", "layers": [
      {"layer": 1, "slots": [{"logical_expert": 0, "rank": 5}, {"logical_expert": "x", "rank": 0}]},
      {"layer": 1, "experts_by_rank": [[0], [1]]},
      {"layer": 2, "slots": [{"id": "a", "logical_expert": 0, "rank": 0},
                             {"id": "a", "logical_expert": 0, "rank": 0, "checkpoint": "c"}]},
      {"layer": 3, "experts_by_rank": [[0, 1], [2, 9]]}]})",
                                    {.experts = 3, .ranks = 2});
  std::vector<std::pair<Code, std::string>> found;
  for (const Error& fault : faults) {
    EXPECT_EQ(fault.coordinate("file"), "m.json");
    found.emplace_back(fault.code(), fault.coordinate("field"));
  }
  EXPECT_THAT(found,
              ElementsAre(std::pair(Code::InvalidValue, "placement_version"),
                          std::pair(Code::DocumentMalformed, "generation"),
                          std::pair(Code::DestinationRankMismatch, "layers[0].slots[0].rank"),
                          std::pair(Code::DocumentMalformed, "layers[0].slots[1].logical_expert"),
                          std::pair(Code::DuplicateKey, "layers[1].layer"),
                          std::pair(Code::DuplicateSlotId, "layers[2].slots"),
                          std::pair(Code::ReplicaCardinalityZero, "layers[2].slots"),
                          std::pair(Code::ReplicaCardinalityZero, "layers[2].slots"),
                          std::pair(Code::TooManyRanks, "layers[2].slots"),
                          std::pair(Code::CheckpointMismatch, "layers[2].slots"),
                          std::pair(Code::LogicalExpertMismatch, "layers[3].experts_by_rank[1][1]"),
                          std::pair(Code::CheckpointMismatch, "layers[0].slots[0]")));
}

TEST(PlacementManifest, NoLayersAreAFaultAlsoWhereTheModelIsUnknown) {
  const auto faults = faults_of_use(R"({"placement_version": "v", "layers": []})", {});
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].code(), Code::InvalidValue);
  EXPECT_EQ(faults[0].coordinate("field"), "layers");
}

TEST(PlacementManifest, CountsThatNobodyKnowsAreTakenFromIt) {
  EXPECT_TRUE(faults_of_use(R"({"placement_version": "v", "layers": [
      {"layer": 7, "experts_by_rank": [[0, 1], [2, 0]]}]})",
                            {})
                  .empty());
  const auto codes = [](const char* text) {
    std::vector<Code> found;
    for (const Error& fault : faults_of_use(text, {})) found.push_back(fault.code());
    return found;
  };
  EXPECT_THAT(codes(R"({"placement_version": "v", "experts_by_rank": [[0, 1], [3]]})"),
              ElementsAre(Code::ReplicaCardinalityZero));
  EXPECT_THAT(codes(R"({"placement_version": "v", "layers": []})"),
              ElementsAre(Code::InvalidValue));
  EXPECT_THAT(codes(R"({"placement_version": "v", "logical_experts": 3,
                        "experts_by_rank": [[0, 1], [3]]})"),
              ElementsAre(Code::LogicalExpertMismatch));
  EXPECT_THAT(codes(R"({"placement_version": "v", "logical_experts": 1000000,
                        "experts_by_rank": [[0, 1], [2]]})"),
              ElementsAre(Code::ReplicaCardinalityZero))
      << "only those next to the file's ids are told";
  EXPECT_THAT(codes(R"({"placement_version": "v", "slots": [{"logical_expert": 0, "rank": 9}]})"),
              ElementsAre(Code::TooManyRanks));
}

TEST(PlacementManifest, TruncatedTextIsMalformedAtEveryLength) {
  const std::string text = placement_manifest(fixture_generation());
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_EQ(fault([&] { parse(text.substr(0, length), 4, 4); }).code(), Code::DocumentMalformed);
  }
}

TEST(PlacementManifest, MissingFileIsUnreadable) {
  EXPECT_EQ(fault([] {
              read_placement_manifest(std::string(WAYBILL_TEST_DATA) + "/none.json", 4, 2,
                                      two_layers);
            }).code(),
            Code::FileUnreadable);
}

}  // namespace
}  // namespace waybill
