#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "placement/fixture.h"
#include "support/fault.h"

namespace waybill {
namespace {

using testing::conformance;
using testing::fault;
using testing::fixture_generation;
using testing::fixture_topology;
using testing::slot_named;

class Compatibility : public ::testing::Test {
 protected:
  void check(ExpertId expert, SlotId slot) const {
    check_compatible(expert, generation.checkpoint, slot, placement, group, topology);
  }

  const Generation generation = fixture_generation();
  const Placement& placement = generation.layer(LayerId{0});
  const Topology topology = fixture_topology();
  const ProcessGroup group = ProcessGroup::identity(4);
};

std::map<std::string, ExpertId> route_experts(const JsonDocument& routes) {
  std::map<std::string, ExpertId> experts;
  for (const JsonValue route : routes.root().at("routes").elements()) {
    experts[std::string(route.at("id").as_string())] =
        ExpertId{static_cast<std::int32_t>(route.at("logical_expert").as_integer())};
  }
  return experts;
}

TEST_F(Compatibility, PredicateCasesOfTheFixture) {
  const JsonDocument document = conformance("placement_v17.json");
  const JsonDocument routes = conformance("routes.json");
  auto experts = route_experts(routes);
  for (const JsonValue test : document.root().at("predicate").at("cases").elements()) {
    const ExpertId expert = experts.at(std::string(test.at("route").as_string()));
    const SlotId slot = slot_named(placement, test.at("slot").as_string());
    if (test.at("ok").as_bool()) {
      EXPECT_NO_THROW(check(expert, slot)) << test.path();
    } else {
      EXPECT_EQ(name(fault([&] { check(expert, slot); }).code()), test.at("error").as_string())
          << test.path();
    }
  }
}

TEST_F(Compatibility, MatrixOfTheFixture) {
  const JsonDocument document = conformance("placement_v17.json");
  const JsonDocument routes = conformance("routes.json");
  auto experts = route_experts(routes);
  const JsonValue matrix = document.root().at("predicate").at("matrix_compatible_slots");
  ASSERT_EQ(matrix.size(), experts.size());
  for (const JsonValue row : matrix.members()) {
    std::vector<std::string> expected, found;
    for (const JsonValue slot : row.elements()) expected.emplace_back(slot.as_string());
    for (std::int32_t q = 0; q < placement.slots(); ++q) {
      try {
        check(experts.at(std::string(row.key())), SlotId{q});
        found.push_back(placement.slot(SlotId{q}).name);
      } catch (const Error&) {
      }
    }
    EXPECT_EQ(found, expected) << row.path();
  }
}

TEST_F(Compatibility, EachClauseHasItsOwnError) {
  const ExpertId expert{0};
  const SlotId q1{1};
  const auto code = [&](const CheckpointVersion& checkpoint, const ProcessGroup& members,
                        const Topology& domains) {
    return fault([&] { check_compatible(expert, checkpoint, q1, placement, members, domains); })
        .code();
  };
  const CheckpointVersion other("checkpoint-0041");
  const ProcessGroup without_rank_1(ProcessGroupId("g"), GroupEpoch{0}, {Rank{0}, Rank{2}});
  const Topology swapped = Topology::of({NodeId{0}, NodeId{1}, NodeId{1}, NodeId{0}});
  EXPECT_EQ(code(other, group, topology), Code::CheckpointMismatch);
  EXPECT_EQ(code(generation.checkpoint, without_rank_1, topology), Code::RankOutsideGroup);
  EXPECT_EQ(code(generation.checkpoint, group, swapped), Code::DomainRankMismatch);
  EXPECT_EQ(code(generation.checkpoint, group, Topology::uniform(1)), Code::DomainRankMismatch);
  EXPECT_EQ(fault([&] { check(expert, SlotId{6}); }).code(), Code::SlotOutsideReplicaSet);
  EXPECT_EQ(fault([&] { check(expert, SlotId{-1}); }).code(), Code::SlotOutsideReplicaSet);
}

TEST_F(Compatibility, CardinalityIsExactlyOneReplica) {
  const JsonDocument document = conformance("placement_v17.json");
  const JsonValue codes = document.root().at("cardinality");
  const auto found = [&](std::vector<SlotId> assigned) {
    const Error error =
        fault([&] { check_cardinality(RouteId{2}, ExpertId{0}, assigned, placement); });
    EXPECT_EQ(error.coordinate("route"), "2");
    return name(error.code());
  };
  EXPECT_EQ(found({}), codes.at("zero").as_string());
  EXPECT_EQ(found({SlotId{0}, SlotId{1}}), codes.at("two").as_string());
  EXPECT_EQ(found({SlotId{4}}), codes.at("outside").as_string());
  EXPECT_NO_THROW(check_cardinality(RouteId{2}, ExpertId{0}, std::vector{SlotId{1}}, placement));
}

}  // namespace
}  // namespace waybill
