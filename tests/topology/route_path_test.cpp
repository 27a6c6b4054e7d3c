// Classes of routes and their hops over relays, on the two nodes of the reference text and beyond.
#include "waybill/route_path.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/fault.h"

namespace waybill {
namespace {

using testing::fault;

const Topology two_nodes = Topology::uniform(4, 2);
const std::vector<Rank> relays{Rank{0}, Rank{2}};

std::vector<Hop> hops(std::int32_t source, std::int32_t destination) {
  return relay_hops(two_nodes, relays, Rank{source}, Rank{destination});
}

TEST(RoutePath, ClassFollowsFromTheNodesOfBothEnds) {
  EXPECT_EQ(classify(two_nodes, Rank{1}, Rank{1}), RouteClass::same_gpu);
  EXPECT_EQ(classify(two_nodes, Rank{1}, Rank{0}), RouteClass::same_node_remote_gpu);
  EXPECT_EQ(classify(two_nodes, Rank{1}, Rank{2}), RouteClass::different_node);
  EXPECT_EQ(fault([] { classify(two_nodes, Rank{1}, Rank{4}); }).code(), Code::RankOutsideGroup);
}

TEST(RoutePath, AStageWithoutAMoveIsLeftOut) {
  using enum RelayStage;
  EXPECT_EQ(hops(0, 2), (std::vector<Hop>{{relay_to_relay, Rank{0}, Rank{2}}}));
  EXPECT_EQ(hops(1, 2), (std::vector<Hop>{{source_to_source_relay, Rank{1}, Rank{0}},
                                          {relay_to_relay, Rank{0}, Rank{2}}}));
  EXPECT_EQ(hops(1, 3), (std::vector<Hop>{{source_to_source_relay, Rank{1}, Rank{0}},
                                          {relay_to_relay, Rank{0}, Rank{2}},
                                          {dest_relay_to_final, Rank{2}, Rank{3}}}));
}

TEST(RoutePath, RowsInsideANodeNeedNoRelay) {
  EXPECT_TRUE(hops(0, 1).empty());
  EXPECT_TRUE(hops(3, 3).empty());
}

TEST(RoutePath, ARelayIsARankOfItsNode) {
  const auto code = [](std::vector<Rank> list) {
    return fault([&] { check_relays(two_nodes, list); }).code();
  };
  EXPECT_EQ(code({Rank{2}, Rank{0}}), Code::RelayNotMember);
  EXPECT_EQ(code({Rank{0}}), Code::RelayNotMember);
  EXPECT_EQ(code({Rank{0}, Rank{4}}), Code::RelayNotMember);
}

}  // namespace
}  // namespace waybill
