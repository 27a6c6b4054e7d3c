// One rank that differs: every rank throws the same error, and no payload moves.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/agreement.h"
#include "exec/layer_case.h"
#include "support/fault.h"
#include "support/random_placement.h"

namespace waybill {
namespace {

using testing::LayerCase;
using testing::RankStep;

LayerCase three_ranks() {
  LayerCase c;
  c.options.hidden = 4;
  c.options.experts = 6;
  c.options.topk = 2;
  c.group = ProcessGroup(ProcessGroupId("group"), GroupEpoch{3}, {Rank{2}, Rank{0}, Rank{1}});
  c.topology = Topology::uniform(3);
  c.placement = std::make_shared<const Placement>(
      Placement::contiguous(PlacementVersion("placement-1"), 6, 3));
  c.tokens_per_rank = {1, 1, 1};
  c.experts = {0, 3, 5, 2, 1, 4};
  c.gates.assign(6, 0.5F);
  c.hidden.assign(12, 1.0F);
  c.checkpoint = CheckpointVersion("checkpoint-0");
  c.source = testing::random_experts(6, 4, 3, DType::f32, 1);
  return c;
}

struct Disagreement {
  std::string field;
  Code code;
  std::function<void(LayerCase&)> change;
};

class OneRankDiffers : public ::testing::TestWithParam<Disagreement> {};

TEST_P(OneRankDiffers, EveryRankThrowsTheSameError) {
  const auto errors =
      testing::errors_of(three_ranks(), testing::forward, [](Rank rank, LayerCase& mine) {
        if (rank == Rank{1}) GetParam().change(mine);
      });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), GetParam().code) << error->what();
    EXPECT_EQ(error->coordinate("field"), GetParam().field);
    EXPECT_EQ(error->coordinate("rank"), "1");
    EXPECT_EQ(error->coordinate("other_rank"), "0");
    EXPECT_STREQ(error->what(), errors[0]->what());
    EXPECT_NE(error->expected_text(), error->found_text());
  }
}

std::shared_ptr<const Placement> other_placement(const std::string& version, std::int32_t last) {
  const std::vector<std::vector<std::int32_t>> lists{{0, 1}, {2, 3}, {5, 4, last}};
  return std::make_shared<const Placement>(
      Placement::from_lists(PlacementVersion(version), 6, lists));
}

INSTANTIATE_TEST_SUITE_P(
    Facts, OneRankDiffers,
    ::testing::Values(
        Disagreement{"placement", Code::GenerationMismatch,
                     [](LayerCase& c) { c.placement = other_placement("placement-2", 0); }},
        Disagreement{"slot_table_hash", Code::GenerationMismatch,
                     [](LayerCase& c) { c.placement = other_placement("placement-1", 0); }},
        Disagreement{"layer", Code::AgreementMismatch,
                     [](LayerCase& c) { c.options.layer = LayerId{5}; }},
        Disagreement{"hidden", Code::AgreementMismatch,
                     [](LayerCase& c) {
                       c.options.hidden = 8;
                       c.hidden.resize(3 * 8);
                     }},
        Disagreement{"topk", Code::AgreementMismatch, [](LayerCase& c) { c.options.topk = 1; }},
        Disagreement{"experts", Code::AgreementMismatch,
                     [](LayerCase& c) { c.options.experts = 7; }},
        Disagreement{"generation", Code::GenerationMismatch,
                     [](LayerCase& c) { c.generation = 2; }},
        Disagreement{"checkpoint", Code::CheckpointMismatch,
                     [](LayerCase& c) { c.checkpoint = CheckpointVersion("another"); }},
        Disagreement{
            "activation", Code::AgreementMismatch,
            [](LayerCase& c) { c.options.activation.kind = ActivationKind::swiglu_clamped; }},
        Disagreement{"activation_alpha", Code::AgreementMismatch,
                     [](LayerCase& c) { c.options.activation.alpha = 1; }},
        Disagreement{"dtype", Code::AgreementMismatch,
                     [](LayerCase& c) { c.options.dtype = DType::bf16; }},
        Disagreement{"activation_limit", Code::AgreementMismatch,
                     [](LayerCase& c) { c.options.activation.limit = 1; }},
        Disagreement{"selector", Code::AgreementMismatch,
                     [](LayerCase& c) { c.options.selector = Selector::least_load; }},
        Disagreement{"dedup", Code::AgreementMismatch,
                     [](LayerCase& c) { c.options.dedup = true; }},
        Disagreement{"checks", Code::AgreementMismatch,
                     [](LayerCase& c) { c.options.checks = Checks::full; }},
        Disagreement{"execution_scope", Code::AgreementMismatch,
                     [](LayerCase& c) { c.options.execution_scope = "another"; }}),
    [](const auto& test) { return test.param.field; });

std::shared_ptr<const Placement> with_slots(const Placement& placement,
                                            const std::function<void(Slot&)>& change) {
  std::vector<Slot> slots;
  for (std::int32_t q = 0; q < placement.slots(); ++q) {
    slots.push_back(placement.slot(SlotId{q}));
    change(slots.back());
  }
  return std::make_shared<const Placement>(placement.version(), placement.experts(),
                                           placement.ranks(), std::move(slots));
}

// Every rank throws `code`, in the same words, for what rank 2 did.
void expect_rank_2s_fault(const std::vector<std::optional<Error>>& errors, Code code) {
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), code) << error->what();
    EXPECT_EQ(error->coordinate("rank"), "2");
    EXPECT_STREQ(error->what(), errors[0]->what());
  }
}

struct OwnFault {
  std::string name;
  Code code;
  std::function<void(LayerCase&)> change;
};

class OneRanksInputIsBad : public ::testing::TestWithParam<OwnFault> {};

// Exchanges of rows that the ranks submit in a step that `spoil` may end.
std::vector<std::optional<Error>> errors_and_row_exchanges(const testing::Spoil& spoil,
                                                           int& exchanges) {
  std::atomic<int> submitted{0};
  auto errors =
      testing::errors_of(three_ranks(), testing::forward, spoil, [&](const AllToAllV& exchange) {
        if (exchange.phase != "counts") ++submitted;
      });
  exchanges = submitted;
  return errors;
}

TEST(RowExchanges, AreADispatchAndAReturnOfEachRank) {
  int exchanges = 0;
  for (const auto& error : errors_and_row_exchanges({}, exchanges)) EXPECT_FALSE(error);
  EXPECT_EQ(exchanges, 2 * 3);
}

TEST_P(OneRanksInputIsBad, EveryRankThrowsItBeforePayloadMoves) {
  int exchanges = -1;
  const auto errors = errors_and_row_exchanges(
      [](Rank rank, LayerCase& mine) {
        if (rank == Rank{2}) GetParam().change(mine);
      },
      exchanges);
  EXPECT_EQ(exchanges, 0);
  expect_rank_2s_fault(errors, GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, OneRanksInputIsBad,
    ::testing::Values(
        OwnFault{"IdTooLarge", Code::ExpertIdOutOfRange, [](LayerCase& c) { c.experts[5] = 6; }},
        OwnFault{"IdBelowMinusOne", Code::ExpertIdOutOfRange,
                 [](LayerCase& c) { c.experts[4] = -2; }},
        OwnFault{"NanGate", Code::GateNotFinite, [](LayerCase& c) { c.gates[5] = std::nanf(""); }},
        OwnFault{"InfiniteGate", Code::GateNotFinite, [](LayerCase& c) { c.gates[4] = HUGE_VALF; }},
        OwnFault{"SlotOfAnotherCheckpoint", Code::CheckpointMismatch,
                 [](LayerCase& c) {
                   c.placement = with_slots(
                       *c.placement, [](Slot& s) { s.checkpoint = CheckpointVersion("older"); });
                 }},
        OwnFault{"SlotInAnotherDomain", Code::DomainRankMismatch,
                 [](LayerCase& c) {
                   c.placement = with_slots(*c.placement, [](Slot& s) { s.domain = "elsewhere"; });
                 }},
        OwnFault{"ExpertMissing", Code::MissingTensor,
                 [](LayerCase& c) { c.source = [](LayerId, ExpertId) { return nullptr; }; }},
        OwnFault{"ExpertOfAnotherDtype", Code::DtypeMismatch,
                 [](LayerCase& c) { c.source = testing::random_experts(6, 4, 3, DType::bf16, 1); }},
        OwnFault{"ExpertOfAnotherWidth", Code::ShapeMismatch,
                 [](LayerCase& c) { c.source = testing::random_experts(6, 8, 3, DType::f32, 1); }}),
    [](const auto& test) { return test.param.name; });

TEST(BadRoutes, NameTokenAndRouteSlotOnEveryRank) {
  const auto errors =
      testing::errors_of(three_ranks(), testing::forward, [](Rank rank, LayerCase& mine) {
        if (rank == Rank{2}) mine.experts[5] = 6;
      });
  for (const auto& error : errors) {
    EXPECT_EQ(error->coordinate("token"), "0");
    EXPECT_EQ(error->coordinate("route_slot"), "1");
    EXPECT_EQ(error->found_text(), "6");
  }
}

struct BadShape {
  std::string name;
  Code code;
  std::function<void(RoutesView&)> change;
};

class OneRanksRoutesHaveAnotherShape : public ::testing::TestWithParam<BadShape> {};

TEST_P(OneRanksRoutesHaveAnotherShape, EveryRankThrowsTheSameErrorAtEveryCheckLevel) {
  for (const Checks checks : {Checks::off, Checks::counts, Checks::full}) {
    LayerCase c = three_ranks();
    c.options.checks = checks;
    const auto errors =
        testing::errors_of(c, [](Communicator& comm, MoeLayer& layer, RankStep& step) {
          RoutesView routes = step.routes();
          if (comm.rank() == Rank{2}) GetParam().change(routes);
          layer.plan(layer.begin(routes));
        });
    expect_rank_2s_fault(errors, GetParam().code);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, OneRanksRoutesHaveAnotherShape,
    ::testing::Values(
        BadShape{"NoIds", Code::RouteCountMismatch, [](RoutesView& r) { r.experts = {}; }},
        BadShape{"FewGates", Code::RouteCountMismatch,
                 [](RoutesView& r) { r.gates = r.gates.first(1); }},
        BadShape{"MoreTokensThanColumns", Code::RouteCountMismatch,
                 [](RoutesView& r) { r.tokens = 1 << 20; }},
        BadShape{"MoreRoutesThanAnInt32Counts", Code::RouteCountMismatch,
                 [](RoutesView& r) { r.tokens = std::numeric_limits<std::int32_t>::max(); }},
        BadShape{"NegativeTokens", Code::InvalidValue, [](RoutesView& r) { r.tokens = -1; }},
        BadShape{"AnotherK", Code::RouteCountMismatch, [](RoutesView& r) { r.topk = 1; }}),
    [](const auto& test) { return test.param.name; });

// A communicator that believes in another membership epoch.
class OtherEpoch final : public testing::PassingCommunicator {
 public:
  explicit OtherEpoch(Communicator& comm)
      : PassingCommunicator(comm),
        group_(comm.group().id(), GroupEpoch{comm.group().epoch().value + 1},
               {comm.group().peer_order().begin(), comm.group().peer_order().end()}) {}

  const ProcessGroup& group() const override { return group_; }

 private:
  const ProcessGroup group_;
};

TEST(GroupEpochs, ThatDifferAreRefusedOnEveryRank) {
  const LayerCase c = three_ranks();
  const auto errors =
      testing::errors_of(c, [&](Communicator& comm, MoeLayer& layer, RankStep& step) {
        if (comm.rank() != Rank{1}) return testing::forward(comm, layer, step);
        OtherEpoch other(comm);
        PlacementRegistry registry;
        testing::load_and_activate(registry, c);
        MoeLayer confused(c.options, other, registry, c.topology, c.source);
        testing::forward(other, confused, step);
      });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::CollectiveEpochMismatch);
    EXPECT_EQ(error->expected_text(), "3");
    EXPECT_EQ(error->found_text(), "4");
  }
}

// Ranks of one process have one instruction set, so the record is changed.
TEST(InstructionSets, ThatDifferAreRefusedOnEveryRank) {
  const LayerCase c = three_ranks();
  PlacementRegistry registry;
  testing::load_and_activate(registry, c);
  const Lease lease = registry.acquire();
  std::vector<std::optional<Error>> errors(3);
  LocalGroup(c.group).run([&](Communicator& comm) {
    AgreementRecord record;
    record.facts = AgreedFacts(c.options, c.group, lease.generation(), c.topology);
    if (comm.rank() == Rank{1}) record.facts.kernel_target = AgreedLabel("ANOTHER");
    errors[comm.rank().index()] = testing::fault([&] { agree(comm, "agreement", record); });
  });
  for (const auto& error : errors) {
    EXPECT_EQ(error->code(), Code::AgreementMismatch);
    EXPECT_EQ(error->coordinate("field"), "cpu_kernel_target");
    EXPECT_EQ(error->coordinate("rank"), "1");
    EXPECT_EQ(error->found_text(), "ANOTHER");
  }
}

TEST(Generations, OfAnotherProcessGroupAreRefused) {
  const LayerCase c = three_ranks();
  const auto errors = testing::errors_of(c, [&](Communicator& comm, MoeLayer&, RankStep& step) {
    PlacementRegistry registry;
    LayerCase other = c;
    other.group = ProcessGroup(ProcessGroupId("elsewhere"), GroupEpoch{3}, {Rank{0}});
    testing::load_and_activate(registry, other);
    MoeLayer layer(c.options, comm, registry, c.topology, c.source);
    testing::forward(comm, layer, step);
  });
  for (const auto& error : errors) EXPECT_EQ(error->code(), Code::ProcessGroupMismatch);
}

}  // namespace
}  // namespace waybill
