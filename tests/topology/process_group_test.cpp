#include <gtest/gtest.h>

#include "support/fault.h"
#include "waybill/topology.h"

namespace waybill {
namespace {

using testing::fault;

ProcessGroup group_of(std::initializer_list<std::int32_t> ranks) {
  return {ProcessGroupId("ep-group-0"), GroupEpoch{3}, {ranks.begin(), ranks.end()}};
}

TEST(ProcessGroup, PeerSlotIsNotTheRank) {
  const ProcessGroup group = group_of({2, 0, 3, 1});
  EXPECT_EQ(group.peer_of(Rank{2}), PeerSlot{0});
  EXPECT_EQ(group.peer_of(Rank{1}), PeerSlot{3});
  EXPECT_EQ(group.rank_of(PeerSlot{2}), Rank{3});
  EXPECT_EQ(group.epoch(), GroupEpoch{3});
}

TEST(ProcessGroup, MembersInRankOrderWhateverThePeerOrder) {
  const ProcessGroup group = group_of({2, 0, 3, 1});
  std::vector<Rank> ranks;
  for (PeerSlot peer : group.by_rank()) ranks.push_back(group.rank_of(peer));
  EXPECT_EQ(ranks, (std::vector<Rank>{Rank{0}, Rank{1}, Rank{2}, Rank{3}}));
}

TEST(ProcessGroup, SubgroupKnowsWhoIsOutside) {
  const ProcessGroup group = group_of({5, 1});
  EXPECT_TRUE(group.contains(Rank{5}));
  EXPECT_FALSE(group.contains(Rank{0}));
  EXPECT_FALSE(group.contains(Rank{6}));
  EXPECT_FALSE(group.contains(Rank{-1}));
  const Error error = fault([&] { (void)group.peer_of(Rank{3}); });
  EXPECT_EQ(error.code(), Code::RankOutsideGroup);
  EXPECT_EQ(error.coordinate("rank"), "3");
}

TEST(ProcessGroup, IdentityIsRankOrder) {
  const ProcessGroup group = ProcessGroup::identity(3);
  EXPECT_EQ(group.size(), 3);
  EXPECT_EQ(group.peer_of(Rank{2}), PeerSlot{2});
  EXPECT_EQ(fault([] { ProcessGroup::identity(0); }).code(), Code::InvalidValue);
}

TEST(ProcessGroup, PeerOrderThatIsNoPermutationIsRefused) {
  const Error twice = fault([] { group_of({0, 1, 0}); });
  EXPECT_EQ(twice.code(), Code::PeerOrderInvalid);
  EXPECT_EQ(twice.coordinate("peer_slot"), "2");
  EXPECT_EQ(fault([] { group_of({0, -1}); }).code(), Code::PeerOrderInvalid);
  EXPECT_EQ(fault([] { group_of({}); }).code(), Code::PeerOrderInvalid);
  EXPECT_EQ(fault([] { group_of({2147483647}); }).code(), Code::PeerOrderInvalid);
}

}  // namespace
}  // namespace waybill
