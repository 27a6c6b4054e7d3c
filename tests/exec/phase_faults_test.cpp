// One rank fails in any phase of a step: the others return a typed error instead of waiting for it.
// No wait ends by itself before the day does: only the abort releases a rank.
#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "exec/layer_case.h"
#include "support/random_placement.h"

namespace waybill {
namespace {

using testing::LayerCase;
using testing::RankStep;

LayerCase four_ranks(bool dedup, Checks checks) {
  LayerCase c;
  c.options.hidden = 4000;  // rows that are not copied at submission
  c.options.experts = 8;
  c.options.topk = 2;
  c.options.dedup = dedup;
  c.options.checks = checks;
  c.group =
      ProcessGroup(ProcessGroupId("group"), GroupEpoch{0}, {Rank{2}, Rank{0}, Rank{3}, Rank{1}});
  c.topology = Topology::uniform(4);
  c.placement = std::make_shared<const Placement>(
      Placement::contiguous(PlacementVersion("placement-1"), 8, 4));
  c.tokens_per_rank = {2, 2, 2, 2};
  for (std::int32_t i = 0; i < 16; ++i) {
    c.experts.push_back((i * 3) % 8);
    c.gates.push_back(0.5F);
  }
  c.hidden.assign(8 * 4000, 1.0F);
  c.source = testing::scaling_experts(std::vector<float>(8, 1.0F), 4000, DType::f32);
  c.runner = testing::make_scaling_runner;
  c.comm.timeout = std::chrono::hours(24);
  return c;
}

constexpr int phases = 8;

// Runs a step and throws before its n-th call.
void fail_before(int phase, MoeLayer& layer, RankStep& step) {
  int reached = 0;
  const auto pass = [&](auto&& handle) {
    if (reached++ == phase) throw Error(Code::DeviceFault).at("phase", phase);
    return std::forward<decltype(handle)>(handle);
  };
  pass(0);
  auto planned = layer.plan(pass(layer.begin(step.routes())));
  auto in_flight = layer.dispatch(pass(std::move(planned)), step.hidden());
  auto computed = layer.compute(pass(layer.receive(pass(std::move(in_flight)))));
  auto combining = layer.give_back(pass(std::move(computed)));
  auto returned = layer.collect(pass(std::move(combining)));
  layer.combine(pass(std::move(returned)), step.output());
  layer.forward(step.routes(), step.hidden(), step.output());
}

class OneRankThrows : public ::testing::TestWithParam<int> {};

TEST_P(OneRankThrows, AllRanksReturnATypedError) {
  for (const Checks checks : {Checks::counts, Checks::full}) {
    const auto errors = testing::errors_of(four_ranks(checks == Checks::full, checks),
                                           [](Communicator& comm, MoeLayer& layer, RankStep& step) {
                                             if (comm.rank() == Rank{3})
                                               return fail_before(GetParam(), layer, step);
                                             testing::forward(comm, layer, step);
                                             testing::forward(comm, layer, step);
                                           });
    ASSERT_TRUE(errors[3]);
    EXPECT_EQ(errors[3]->code(), Code::DeviceFault);
    for (const std::size_t rank : {0U, 1U, 2U}) {
      ASSERT_TRUE(errors[rank]);
      EXPECT_EQ(errors[rank]->code(), Code::PeerAborted) << errors[rank]->what();
      EXPECT_EQ(errors[rank]->coordinate("rank"), "3");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(BeforeEachCall, OneRankThrows, ::testing::Range(0, phases));

class BrokenRunner final : public ExpertRunner {
 public:
  explicit BrokenRunner(void (*fail)()) : fail_(fail) {}
  std::string_view name() const override { return "broken"; }
  std::size_t workspace_bytes(const RunnerInput&) const override { return 0; }
  Event run(const RunnerInput&, Workspace&, const Stream&, ThreadPool*) override {
    fail_();
    return {};
  }

 private:
  void (*const fail_)();
};

testing::Spoil break_rank_1(void (*fail)()) {
  return [fail](Rank rank, LayerCase& mine) {
    if (rank == Rank{1}) mine.runner = [fail] { return std::make_unique<BrokenRunner>(fail); };
  };
}

void expect_told_by_rank_1(const std::optional<Error>& error, const std::string& words) {
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::PeerAborted) << error->what();
  EXPECT_EQ(error->coordinate("rank"), "1");
  EXPECT_NE(std::string(error->what()).find(words), std::string::npos) << error->what();
}

TEST(OneRanksRunner, ThrowsAForeignExceptionAndTheOthersReturnATypedError) {
  std::vector<std::optional<Error>> errors(4);
  const auto body = [&](Communicator& comm, MoeLayer& layer, RankStep& step) {
    try {
      testing::forward(comm, layer, step);
    } catch (const Error& error) {
      errors[comm.rank().index()] = error;
      throw;
    }
  };
  EXPECT_THROW(testing::errors_of(four_ranks(false, Checks::counts), body,
                                  break_rank_1([] { throw std::runtime_error("kernel failed"); })),
               std::runtime_error);
  EXPECT_FALSE(errors[1]);
  for (const std::size_t rank : {0U, 2U, 3U}) expect_told_by_rank_1(errors[rank], "kernel failed");
}

// The rank doesn't leave before the others have ended, so that the layer's own abort releases them.
TEST(OneRanksRunner, ThrowsWhatIsNoExceptionAndTheOthersReturnATypedError) {
  std::latch others(3);
  const auto body = [&](Communicator& comm, MoeLayer& layer, RankStep& step) {
    if (comm.rank() == Rank{1}) {
      EXPECT_THROW(testing::forward(comm, layer, step), int);
      return others.wait();
    }
    try {
      testing::forward(comm, layer, step);
    } catch (...) {
      others.count_down();
      throw;
    }
    others.count_down();
  };
  const auto errors =
      testing::errors_of(four_ranks(false, Checks::counts), body, break_rank_1([] { throw 42; }));
  for (const std::size_t rank : {0U, 2U, 3U}) expect_told_by_rank_1(errors[rank], "unknown type");
}

TEST(RoutesChangedDuringAStep, AreFoundByFullChecks) {
  for (const std::size_t spoiled_gate : {0U, 1U}) {
    const auto errors = testing::errors_of(
        four_ranks(true, Checks::full), [&](Communicator& comm, MoeLayer& layer, RankStep& step) {
          Returned returned = layer.collect(layer.give_back(layer.compute(layer.receive(
              layer.dispatch(layer.plan(layer.begin(step.routes())), step.hidden())))));
          if (comm.rank() == Rank{0}) step.gates[spoiled_gate] += 0.25F;
          layer.combine(std::move(returned), step.output());
        });
    ASSERT_TRUE(errors[0]);
    EXPECT_EQ(errors[0]->code(), Code::SemanticDigestMismatch);
  }
}

// Flips one int32 of what a rank sends in one phase.
class Corrupting final : public testing::PassingCommunicator {
 public:
  Corrupting(Communicator& comm, std::string_view phase, std::size_t index, std::int32_t change)
      : PassingCommunicator(comm), phase_(phase), index_(index), change_(change) {}

  Completion all_to_all_v(const AllToAllV& exchange) override {
    if (exchange.phase != phase_) return PassingCommunicator::all_to_all_v(exchange);
    copy_.assign(exchange.send, exchange.send + exchange.send_offsets.back());
    reinterpret_cast<std::int32_t*>(copy_.data())[index_] += change_;
    AllToAllV changed = exchange;
    changed.send = copy_.data();
    return PassingCommunicator::all_to_all_v(changed);
  }

 private:
  std::string_view phase_;
  std::size_t index_;
  std::int32_t change_;
  std::vector<std::byte> copy_;
};

std::vector<std::optional<Error>> with_corruption(const LayerCase& c, std::string_view phase,
                                                  std::size_t index, std::int32_t change) {
  return testing::errors_of(c, [&](Communicator& comm, MoeLayer& layer, RankStep& step) {
    if (comm.rank() != Rank{1}) {
      testing::forward(comm, layer, step);
      return testing::forward(comm, layer, step);  // the last exchange may leave this rank unharmed
    }
    Corrupting corrupting(comm, phase, index, change);
    PlacementRegistry registry;
    testing::load_and_activate(registry, c);
    MoeLayer mine(c.options, corrupting, registry, c.topology, c.source, c.runner());
    testing::forward(corrupting, mine, step);
    testing::forward(corrupting, mine, step);
  });
}

struct Corruption {
  std::string name;
  std::string phase;
  std::size_t index;
  std::int32_t change;
  Code code;
};

class CorruptedMessages : public ::testing::TestWithParam<Corruption> {};

// A message of counts for one peer: routes of the sender, payload rows, rows for each slot.
TEST_P(CorruptedMessages, AreATypedErrorOnSomeRankAndAnAbortOnTheOthers) {
  const auto errors = with_corruption(four_ranks(true, Checks::full), GetParam().phase,
                                      GetParam().index, GetParam().change);
  std::size_t causes = 0;
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    if (error->code() == Code::PeerAborted) {
      EXPECT_EQ(error->coordinate("cause"), name(GetParam().code));
    } else {
      EXPECT_EQ(error->code(), GetParam().code) << error->what();
      ++causes;
    }
  }
  EXPECT_GE(causes, 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, CorruptedMessages,
    ::testing::Values(
        Corruption{"RoutesPlanned", "counts", 0, 1, Code::RouteConservationMismatch},
        Corruption{"PayloadRows", "counts", 1, 1000, Code::PeerCountDisagreement},
        Corruption{"NegativePayloadRows", "counts", 1, -1000, Code::PeerCountDisagreement},
        Corruption{"PayloadRowsPastAnInt32InAll", "counts", 1,
                   std::numeric_limits<std::int32_t>::max() - 4, Code::PeerCountDisagreement},
        Corruption{"NegativePayloadRowsOfNoRoutes", "counts", 5, -1, Code::PeerCountDisagreement},
        Corruption{"NegativeSlotRows", "counts", 2, -1000, Code::PeerCountDisagreement},
        Corruption{"PayloadRowOfARoute", "dispatch_fields", 0, 100, Code::PeerCountDisagreement},
        Corruption{"RouteOfARow", "dispatch_fields", 1, 1, Code::RoundTripMismatch},
        Corruption{"RouteOfAnotherRow", "dispatch_fields", 1, 3, Code::RouteIdentityCollision},
        Corruption{"RouteReturned", "return_fields", 0, 1, Code::RoundTripMismatch},
        Corruption{"SlotReturned", "return_fields", 1, 1, Code::RoundTripMismatch}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace waybill
