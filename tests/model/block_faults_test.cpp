// What fails in a block outside its layer's own steps reaches every rank too.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

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

}  // namespace
}  // namespace waybill
