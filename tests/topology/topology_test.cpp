#include "waybill/topology.h"

#include <gtest/gtest.h>

#include "support/fault.h"

namespace waybill {
namespace {

using testing::fault;

std::vector<NodeId> nodes(std::initializer_list<std::int32_t> ids) {
  return {ids.begin(), ids.end()};
}

TEST(Topology, UniformGivesEachNodeARunOfRanks) {
  const Topology topology = Topology::uniform(6, 2);
  EXPECT_EQ(topology.ranks(), 6);
  EXPECT_EQ(topology.nodes(), 2);
  EXPECT_EQ(topology.node_of(Rank{2}), NodeId{0});
  EXPECT_EQ(topology.node_of(Rank{3}), NodeId{1});
  EXPECT_EQ(topology.node_name(NodeId{1}), "node-1");
}

TEST(Topology, NodesMayBeUnequalAndInterleaved) {
  const Topology topology = Topology::of(nodes({1, 0, 1, 1}), {"left", "right"});
  EXPECT_EQ(topology.node_of(Rank{1}), NodeId{0});
  EXPECT_EQ(topology.node_name(topology.node_of(Rank{3})), "right");
}

TEST(Topology, RanksThatDoNotDivideAreRefused) {
  const Error error = fault([] { Topology::uniform(8, 3); });
  EXPECT_EQ(error.code(), Code::InvalidValue);
  EXPECT_EQ(error.coordinate("field"), "nodes");
  EXPECT_EQ(fault([] { Topology::uniform(0); }).code(), Code::InvalidValue);
  EXPECT_EQ(fault([] { Topology::uniform(4, 0); }).code(), Code::InvalidValue);
  EXPECT_EQ(fault([] { Topology::of({}); }).code(), Code::InvalidValue);
}

TEST(Topology, EmptyNodeIsNoPartition) {
  const Error error = fault([] { Topology::of(nodes({0, 2, 2})); });
  EXPECT_EQ(error.code(), Code::DomainNotPartition);
  EXPECT_EQ(error.coordinate("node"), "1");
}

TEST(Topology, NodeIdOutsideTheNodesIsNamedWithItsRank) {
  const Error error = fault([] { Topology::of(nodes({0, 1, 2}), {"a", "b"}); });
  EXPECT_EQ(error.code(), Code::DomainNotPartition);
  EXPECT_EQ(error.coordinate("rank"), "2");
  EXPECT_EQ(fault([] { Topology::of(nodes({0, -1})); }).code(), Code::DomainNotPartition);
  EXPECT_EQ(fault([] { Topology::of(nodes({0, 2147483647})); }).code(), Code::DomainNotPartition);
}

TEST(Topology, TwoNodesOfOneNameAreRefused) {
  const Error error = fault([] { Topology::of(nodes({0, 1}), {"a", "a"}); });
  EXPECT_EQ(error.code(), Code::DomainNotPartition);
  EXPECT_EQ(error.coordinate("node"), "a");
}

}  // namespace
}  // namespace waybill
