// What fails in a block outside its layer's own steps reaches every rank too.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/fault.h"
#include "support/random_placement.h"
#include "support/recording.h"
#include "waybill/block.h"

namespace waybill {
namespace {

TEST(BlockFaults, ARouterThatFailsOnOneRankEndsTheWaitOfTheOthers) {
  const Checkpoint checkpoint = Checkpoint::open(testing::checkpoint_directory("qwen3_moe"));
  const ModelConfig& model = checkpoint.config();
  PlacementRegistry registry;
  registry.load(testing::generation_of(
      Placement::contiguous(PlacementVersion{"p"}, model.experts, 2), model.moe_layers));
  registry.activate(PlacementVersion{"p"});
  ExpertStore store(checkpoint, DType::f32);
  const Topology topology = Topology::uniform(2);
  // Only the abort can release the rank that waits.
  LocalGroup group(ProcessGroup::identity(2), CommOptions{std::chrono::hours(24)});
  std::vector<Code> codes(2, Code::UsageError);
  std::vector<std::thread> ranks;
  for (std::int32_t r = 0; r < 2; ++r) {
    ranks.emplace_back([&, r] {
      const std::unique_ptr<Communicator> comm = group.join(Rank{r});
      MoeBlock block(checkpoint, LayerId{0}, {}, store, *comm, registry, topology);
      std::vector<float> rows(static_cast<std::size_t>(model.hidden), 1.0F);
      if (r == 1) rows[0] = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> out(rows.size());
      try {
        block.forward(TensorView::contiguous(rows.data(), DType::f32, {1, model.hidden}), {}, out);
      } catch (const Error& error) {
        codes[static_cast<std::size_t>(r)] = error.code();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(codes[0], Code::PeerAborted);
  EXPECT_EQ(codes[1], Code::GateNotFinite);
}

// One rank's block with all that it refers to.
struct OneRankBlock {
  explicit OneRankBlock(DType dtype)
      : store(checkpoint, dtype),
        loaded(load(registry, model, 1)),
        block(checkpoint, model.moe_layers[0], options(dtype), store, *comm, registry, topology) {}

  static BlockOptions options(DType dtype) {
    BlockOptions options;
    options.dtype = dtype;
    return options;
  }
  static bool load(PlacementRegistry& registry, const ModelConfig& model, std::int32_t ranks) {
    registry.load(testing::generation_of(
        Placement::contiguous(PlacementVersion{"p"}, model.experts, ranks), model.moe_layers));
    registry.activate(PlacementVersion{"p"});
    return true;
  }

  const Checkpoint checkpoint = Checkpoint::open(testing::checkpoint_directory("deepseek_v3"));
  const ModelConfig& model = checkpoint.config();
  ExpertStore store;
  PlacementRegistry registry;
  const bool loaded;
  const Topology topology = Topology::uniform(1);
  LocalGroup group{ProcessGroup::identity(1)};
  std::unique_ptr<Communicator> comm = group.join(Rank{0});
  MoeBlock block;
};

// Rows of another type would be read past their end, and results written past the spans'.
TEST(BlockFaults, RowsAndSpansThatDontFitAreRefusedBeforeAnythingRuns) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto fault = [&](DType rows_dtype, std::int64_t width_change, std::size_t experts_out,
                           std::size_t block_out) {
      OneRankBlock one(dtype);
      const std::int64_t d = one.model.hidden;
      std::vector<float> rows(static_cast<std::size_t>(2 * (d + 1)), 1.0F);
      std::vector<float> sums(rows.size()), out(rows.size());
      return testing::fault([&] {
        one.block.forward(TensorView::contiguous(rows.data(), rows_dtype, {2, d + width_change}),
                          std::span(sums).first(experts_out), std::span(out).first(block_out));
      });
    };
    const std::size_t size = 2 * static_cast<std::size_t>(OneRankBlock(dtype).model.hidden);
    EXPECT_EQ(fault(DType::bf16, 0, size, size).code(), Code::DtypeMismatch);
    EXPECT_EQ(fault(DType::f32, 1, size, size).coordinate("tensor"), "hidden");
    EXPECT_EQ(fault(DType::f32, 0, size - 1, size).coordinate("tensor"), "experts_out");
    EXPECT_EQ(fault(DType::f32, 0, 0, size + 1).coordinate("tensor"), "block_out");
    EXPECT_EQ(fault(DType::f32, 0, size, 1).code(), Code::ShapeMismatch);
  }
}

TEST(ExpertStoreFaults, AnExecutionDtypeThatNoKernelHasIsRefusedAtOnce) {
  const Checkpoint checkpoint = Checkpoint::open(testing::checkpoint_directory("qwen3_moe"));
  EXPECT_EQ(testing::code_of([&] { ExpertStore(checkpoint, DType::f16); }), Code::DtypeMismatch);
}

// run_block() of `ranks` ranks, with a topology and a placement of as many unless it says
// otherwise.
struct RunCase {
  ProcessGroup group = ProcessGroup::identity(2);
  Topology topology = Topology::uniform(2);
  Placement placement = Placement::contiguous(PlacementVersion{"p"}, 8, 2);
  Checks checks = Checks::counts;

  Error fault() const {
    const Checkpoint checkpoint = Checkpoint::open(testing::checkpoint_directory("qwen3_moe"));
    ExpertStore store(checkpoint, DType::f32);
    PlacementRegistry registry;
    Generation generation = testing::generation_of(placement, checkpoint.config().moe_layers);
    generation.group = group.id();
    registry.load(std::move(generation));
    registry.activate(placement.version());
    LocalGroup ranks(group);
    BlockOptions options;
    options.checks = checks;
    const std::vector<float> hidden(4 * static_cast<std::size_t>(checkpoint.config().hidden), 1.0F);
    return testing::fault([&] {
      run_block(checkpoint, checkpoint.config().moe_layers[0], options, store, ranks, registry,
                topology, hidden);
    });
  }
};

TEST(BlockRunFaults, GroupTopologyAndPlacementAreOfTheSameRanks) {
  const auto field = [](const RunCase& run) {
    const Error error = run.fault();
    EXPECT_EQ(error.code(), Code::RankCountMismatch) << error.what();
    return std::string(error.coordinate("field"));
  };
  RunCase small_topology, small_placement, gap;
  small_topology.topology = Topology::uniform(1);
  small_placement.placement = Placement::contiguous(PlacementVersion{"p"}, 8, 1);
  gap.group = ProcessGroup(ProcessGroupId{"g"}, GroupEpoch{0}, {Rank{0}, Rank{2}});
  EXPECT_EQ(field(small_topology), "topology");
  EXPECT_EQ(field(small_placement), "placement");
  EXPECT_EQ(field(gap), "group");
}

TEST(BlockRunFaults, AStatedSha256IsComparedWithTheWeightsUnderFullChecks) {
  const Checkpoint checkpoint = Checkpoint::open(testing::checkpoint_directory("qwen3_moe"));
  const LayerId layer = checkpoint.config().moe_layers[0];
  const auto stating = [&](const std::string& digest_of_expert_5) {
    const Placement plain = Placement::contiguous(PlacementVersion{"p"}, 8, 2);
    std::vector<Slot> slots;
    for (std::int32_t q = 0; q < plain.slots(); ++q) {
      slots.push_back(plain.slot(SlotId{q}));
      slots.back().parameter_digest =
          parameter_digest(checkpoint.expert(layer, slots.back().expert));
    }
    slots[5].parameter_digest = digest_of_expert_5;
    return Placement(PlacementVersion{"p"}, 8, 2, slots);
  };
  const auto check = [&](const Placement& placement) {
    for (const Rank rank : {Rank{0}, Rank{1}}) {
      check_parameter_digests(checkpoint, layer, placement, rank);
    }
  };
  EXPECT_NO_THROW(check(stating(parameter_digest(checkpoint.expert(layer, ExpertId{5})))));
  EXPECT_NO_THROW(check(stating("expert-5-state-v42"))) << "a label, which weights don't tell";

  RunCase run;
  run.checks = Checks::full;
  run.placement = stating(parameter_digest(checkpoint.expert(layer, ExpertId{4})));
  const Error error = run.fault();
  EXPECT_EQ(error.code(), Code::ParameterDigestMismatch) << error.what();
  EXPECT_EQ(error.coordinate("expert"), "5");
}

}  // namespace
}  // namespace waybill
