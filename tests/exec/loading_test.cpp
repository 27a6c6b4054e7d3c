// Weights are loaded the first time that a generation is used: no deadline of peers runs meanwhile,
// and it isn't the step's time.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "exec/layer_case.h"
#include "support/random_placement.h"

namespace waybill {
namespace {

using testing::LayerCase;
using testing::RankStep;

LayerCase two_ranks_that_load() {
  LayerCase c;
  c.options.hidden = 2;
  c.options.experts = 4;
  c.options.topk = 1;
  c.group = ProcessGroup::identity(2);
  c.topology = Topology::uniform(2);
  c.placement = std::make_shared<const Placement>(
      Placement::contiguous(PlacementVersion("placement-1"), 4, 2));
  c.tokens_per_rank = {1, 1};
  c.experts = {3, 0};
  c.gates = {1, 1};
  c.hidden = {1, 2, 3, 4};
  c.source = testing::scaling_experts({1, 2, 3, 4}, 2, DType::f32);
  c.runner = testing::make_scaling_runner;
  return c;
}

class PauseRecorder final : public testing::PassingCommunicator {
 public:
  using PassingCommunicator::PassingCommunicator;

  void all_gather(std::string_view phase, std::span<const std::byte> mine,
                  std::span<std::byte> all) override {
    EXPECT_FALSE(is_paused) << phase;
    PassingCommunicator::all_gather(phase, mine, all);
  }
  void pause_deadline() noexcept override {
    is_paused = true;
    PassingCommunicator::pause_deadline();
  }
  void resume_deadline() noexcept override {
    is_paused = false;
    PassingCommunicator::resume_deadline();
  }

  bool is_paused = false;
};

TEST(Loading, IsOutsideThePeersDeadline) {
  const LayerCase c = two_ranks_that_load();
  for (const bool prepares : {false, true}) {
    const auto errors = testing::errors_of(c, [&](Communicator& comm, MoeLayer&, RankStep& step) {
      PauseRecorder recorder(comm);
      PlacementRegistry registry;
      testing::load_and_activate(registry, c);
      const ExpertSource source = [&](LayerId layer, ExpertId expert) {
        EXPECT_TRUE(recorder.is_paused);
        return c.source(layer, expert);
      };
      MoeLayer layer(c.options, recorder, registry, c.topology, source, c.runner());
      if (prepares) layer.prepare();
      testing::forward(recorder, layer, step);
      EXPECT_FALSE(recorder.is_paused);
    });
    for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
  }
}

TEST(Loading, ThatFailsLetsTheDeadlineRunAgain) {
  const LayerCase c = two_ranks_that_load();
  testing::errors_of(c, [&](Communicator& comm, MoeLayer&, RankStep&) {
    PauseRecorder recorder(comm);
    PlacementRegistry registry;
    testing::load_and_activate(registry, c);
    const ExpertSource source = [](LayerId, ExpertId) { return nullptr; };
    MoeLayer layer(c.options, recorder, registry, c.topology, source, c.runner());
    EXPECT_THROW(layer.prepare(), Error);
    EXPECT_FALSE(recorder.is_paused);
  });
}

TEST(Loading, IsTimedByItselfAndOnce) {
  const LayerCase c = two_ranks_that_load();
  for (const bool prepares : {false, true}) {
    const auto errors =
        testing::errors_of(c, [&](Communicator& comm, MoeLayer& layer, RankStep& step) {
          if (prepares) layer.prepare();
          testing::forward(comm, layer, step);
          const StepReport::Times first = layer.report().time;
          EXPECT_GT(first.load.value, 0);
          EXPECT_EQ(first.total, first.plan + first.agree + first.pack + first.dispatch +
                                     first.experts + first.give_back + first.combine);
          if (prepares) layer.prepare();
          testing::forward(comm, layer, step);
          EXPECT_EQ(layer.report().time.load.value, 0);
        });
    for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
  }
}

TEST(Prepare, LoadsSoThatNoStepDoes) {
  LayerCase c = two_ranks_that_load();
  std::atomic<int> loaded{0};
  c.source = [&loaded, source = c.source](LayerId layer, ExpertId expert) {
    ++loaded;
    return source(layer, expert);
  };
  const auto errors =
      testing::errors_of(c, [&](Communicator& comm, MoeLayer& layer, RankStep& step) {
        layer.prepare();
        EXPECT_EQ(loaded, 4) << "all ranks have theirs";
        testing::forward(comm, layer, step);
        EXPECT_EQ(loaded, 4);
      });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

TEST(Prepare, OfARankThatCantLoadIsTheSameErrorOnEveryRank) {
  const auto errors = testing::errors_of(
      two_ranks_that_load(), [](Communicator&, MoeLayer& layer, RankStep&) { layer.prepare(); },
      [](Rank rank, LayerCase& mine) {
        if (rank == Rank{1}) mine.source = [](LayerId, ExpertId) { return nullptr; };
      });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::MissingTensor);
    EXPECT_EQ(error->coordinate("rank"), "1");
    EXPECT_EQ(error->coordinate("expert"), "2");
  }
}

}  // namespace
}  // namespace waybill
