#include "waybill/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fault.h"

namespace waybill {
namespace {

using ::testing::ElementsAre;
using testing::fault;

// Expert 0 on ranks 0 and 1, expert 1 on rank 1.
std::vector<Slot> three_slots() {
  const CheckpointVersion checkpoint("c1");
  return {{"q0", ExpertId{0}, "e0-r0", Rank{0}, "node-0", checkpoint, "d0"},
          {"q1", ExpertId{0}, "e0-r1", Rank{1}, "node-0", checkpoint, "d0"},
          {"q2", ExpertId{1}, "e1-r0", Rank{1}, "node-0", checkpoint, "d1"}};
}

Placement place(std::vector<Slot> slots, const Topology* topology = nullptr) {
  return {PlacementVersion("v1"), 2, 2, std::move(slots), topology};
}

std::vector<std::size_t> slots_per_rank(const Placement& placement) {
  std::vector<std::size_t> counts;
  for (std::int32_t r = 0; r < placement.ranks(); ++r) {
    counts.push_back(placement.slots_on(Rank{r}).size());
  }
  return counts;
}

TEST(Placement, IndexesReplicasAndLocalSlotsInManifestOrder) {
  const Placement placement = place(three_slots());
  EXPECT_THAT(placement.replicas(ExpertId{0}), ElementsAre(SlotId{0}, SlotId{1}));
  EXPECT_THAT(placement.slots_on(Rank{1}), ElementsAre(SlotId{1}, SlotId{2}));
  EXPECT_EQ(placement.local_index(SlotId{2}), 1);
  EXPECT_EQ(placement.replica_of(SlotId{1}), ReplicaId{1});
  EXPECT_EQ(placement.rank_of(SlotId{0}), Rank{0});
}

// A fault put into the three slots, and the code and slot that must be named.
struct SlotFault {
  const char* name;
  void (*mutate)(std::vector<Slot>&);
  Code code;
  const char* slot;
};

class PlacementFault : public ::testing::TestWithParam<SlotFault> {};

TEST_P(PlacementFault, IsNamedWithItsSlot) {
  std::vector<Slot> slots = three_slots();
  GetParam().mutate(slots);
  const Topology topology = Topology::uniform(2, 1);
  const Error error = fault([&] { place(slots, &topology); });
  EXPECT_EQ(error.code(), GetParam().code) << error.what();
  EXPECT_EQ(error.coordinate("slot"), GetParam().slot) << error.what();
}

INSTANTIATE_TEST_SUITE_P(
    All, PlacementFault,
    ::testing::Values(SlotFault{"slot_name_twice", [](auto& s) { s[2].name = "q0"; },
                                Code::DuplicateSlotId, "q0"},
                      SlotFault{"replica_name_twice", [](auto& s) { s[2].replica = "e0-r1"; },
                                Code::ReplicaIdMismatch, "q2"},
                      SlotFault{"expert_out_of_range", [](auto& s) { s[2].expert = ExpertId{2}; },
                                Code::LogicalExpertMismatch, "q2"},
                      SlotFault{"expert_negative", [](auto& s) { s[2].expert = ExpertId{-1}; },
                                Code::LogicalExpertMismatch, "q2"},
                      SlotFault{"rank_out_of_range", [](auto& s) { s[1].rank = Rank{2}; },
                                Code::DestinationRankMismatch, "q1"},
                      SlotFault{"replica_of_another_checkpoint",
                                [](auto& s) { s[1].checkpoint = CheckpointVersion("c0"); },
                                Code::CheckpointMismatch, "q1"},
                      SlotFault{"replica_of_another_digest",
                                [](auto& s) { s[1].parameter_digest = "d9"; },
                                Code::ParameterDigestMismatch, "q1"},
                      SlotFault{"domain_that_does_not_own_the_rank",
                                [](auto& s) { s[1].domain = "node-1"; }, Code::DomainRankMismatch,
                                "q1"}),
    [](const auto& test) { return test.param.name; });

TEST(Placement, ExpertWithoutASlotIsRefused) {
  std::vector<Slot> slots = three_slots();
  slots[2].expert = ExpertId{0};
  const Error error = fault([&] { place(slots); });
  EXPECT_EQ(error.code(), Code::ReplicaCardinalityZero);
  EXPECT_EQ(error.coordinate("expert"), "1");
}

TEST(Placement, RankWithoutASlotIsRefused) {
  std::vector<Slot> slots = three_slots();
  slots[0].rank = Rank{1};
  const Error error = fault([&] { place(slots); });
  EXPECT_EQ(error.code(), Code::TooManyRanks);
  EXPECT_EQ(error.coordinate("rank"), "0");
}

TEST(Placement, ADigestStatedByOneReplicaAloneProvesNothing) {
  for (const std::size_t silent : {0U, 1U}) {
    std::vector<Slot> slots = three_slots();
    slots[silent].parameter_digest.clear();
    const Error error = fault([&] { place(slots); });
    EXPECT_EQ(error.code(), Code::ParameterDigestMismatch);
    EXPECT_EQ(error.coordinate("slot"), "q1");
    EXPECT_EQ(silent == 0 ? error.expected_text() : error.found_text(), "none");
  }
}

TEST(Placement, DigestsMayBeLeftOutForAllReplicasOfAnExpert) {
  std::vector<Slot> slots = three_slots();
  slots[0].parameter_digest.clear();
  slots[1].parameter_digest.clear();
  EXPECT_EQ(place(slots).slots(), 3);
}

TEST(Placement, TopologySmallerThanThePlacementIsRefused) {
  const Topology topology = Topology::uniform(1);
  EXPECT_EQ(fault([&] { place(three_slots(), &topology); }).code(), Code::RankCountMismatch);
}

TEST(Placement, ExpertsThatDoNotDivideOverRanksGetUnequalSlotCounts) {
  const Placement six = Placement::contiguous(PlacementVersion("v"), 160, 6);
  EXPECT_THAT(slots_per_rank(six), ElementsAre(27, 27, 27, 27, 26, 26));
  EXPECT_EQ(six.expert_of(six.slots_on(Rank{4}).front()), ExpertId{108});
}

TEST(Placement, RankCountThatIsNoPowerOfTwo) {
  const Placement three = Placement::contiguous(PlacementVersion("v"), 256, 3);
  EXPECT_THAT(slots_per_rank(three), ElementsAre(86, 85, 85));
}

TEST(Placement, ContiguousCoversEveryExpertOnceForAnySplit) {
  for (std::int32_t experts = 1; experts <= 40; ++experts) {
    for (std::int32_t ranks = 1; ranks <= experts; ++ranks) {
      const Placement placement = Placement::contiguous(PlacementVersion("v"), experts, ranks);
      ASSERT_EQ(placement.slots(), experts);
      for (std::int32_t q = 0; q < experts; ++q) {
        ASSERT_EQ(placement.expert_of(SlotId{q}), ExpertId{q});
      }
      const std::vector<std::size_t> counts = slots_per_rank(placement);
      ASSERT_TRUE(std::ranges::is_sorted(counts, std::greater<>()));
      ASSERT_LE(counts.front() - counts.back(), 1U);
    }
  }
}

TEST(Placement, ImpossibleCountsAreRefused) {
  const PlacementVersion v("v");
  EXPECT_EQ(fault([&] { Placement::contiguous(v, 8, 0); }).code(), Code::InvalidValue);
  EXPECT_EQ(fault([&] { Placement::contiguous(v, 0, 2); }).code(), Code::InvalidValue);
  EXPECT_EQ(fault([&] { Placement::contiguous(v, -4, 2); }).code(), Code::InvalidValue);
  EXPECT_EQ(fault([&] { Placement::contiguous(v, 4, 5); }).code(), Code::TooManyRanks);
  EXPECT_EQ(fault([&] { Placement::from_lists(v, 4, {}); }).code(), Code::InvalidValue);
}

TEST(Placement, ListsMayBeUnequalAndNameTheirSlots) {
  const std::vector<std::vector<std::int32_t>> lists{{2, 0}, {1}, {0, 0}};
  const Placement placement = Placement::from_lists(PlacementVersion("v"), 3, lists);
  EXPECT_THAT(placement.replicas(ExpertId{0}), ElementsAre(SlotId{1}, SlotId{3}, SlotId{4}));
  EXPECT_EQ(placement.slot(SlotId{4}).name, "q4");
  EXPECT_EQ(placement.slot(SlotId{4}).replica, "e0-r2");
}

TEST(Generation, LayerWithoutAPlacementIsNamed) {
  Generation generation;
  generation.version = PlacementVersion("v1");
  const Error error = fault([&] { (void)generation.layer(LayerId{7}); });
  EXPECT_EQ(error.code(), Code::InvalidValue);
  EXPECT_EQ(error.coordinate("layer"), "7");
}

}  // namespace
}  // namespace waybill
