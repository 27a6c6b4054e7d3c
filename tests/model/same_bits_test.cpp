// The first promise: an output's bits don't depend on how the work was spread.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/random_placement.h"
#include "support/recording.h"
#include "waybill/block.h"
#include "waybill/digest.h"

namespace waybill {
namespace {

std::string hash(std::span<const float> values) { return sha256_hex(std::as_bytes(values)); }

struct Spread {
  std::int32_t ranks;
  Selector selector;
  bool dedup;
};

// One layer of a checkpoint with its experts loaded once.
class Bench {
 public:
  Bench(const std::string& family, DType dtype)
      : checkpoint_(Checkpoint::open(testing::checkpoint_directory(family))),
        store_(checkpoint_, dtype),
        dtype_(dtype),
        layer_(checkpoint_.config().moe_layers.back()),
        hidden_(testing::Recording(family).hidden(checkpoint_.block_name(layer_))) {}

  std::string hash_of(const Spread& spread, const Placement& placement, const ProcessGroup& peers,
                      std::span<const std::int64_t> tokens_per_rank = {}) {
    return hash(run(spread, placement, peers, hidden_, tokens_per_rank).block_out);
  }

  BlockRun run(const Spread& spread, const Placement& placement, const ProcessGroup& peers,
               std::span<const float> rows, std::span<const std::int64_t> tokens_per_rank = {}) {
    PlacementRegistry registry;
    registry.load(testing::generation_of(placement, checkpoint_.config().moe_layers));
    registry.activate(placement.version());
    LocalGroup group(peers);
    BlockOptions options;
    options.dtype = dtype_;
    options.selector = spread.selector;
    options.dedup = spread.dedup;
    return run_block(checkpoint_, layer_, options, store_, group, registry,
                     Topology::uniform(spread.ranks, spread.ranks % 2 == 0 ? 2 : 1), rows,
                     tokens_per_rank);
  }
  BlockRun run(const Spread& spread, std::span<const float> rows) {
    return run(spread, Placement::contiguous(PlacementVersion{"runs"}, experts(), spread.ranks),
               ProcessGroup::identity(spread.ranks), rows);
  }

  std::string hash_on_one_rank() {
    return hash_of({1, Selector::first, false},
                   Placement::contiguous(PlacementVersion{"one"}, experts(), 1),
                   ProcessGroup::identity(1));
  }
  std::int32_t experts() const { return checkpoint_.config().experts; }
  std::size_t hidden() const { return static_cast<std::size_t>(checkpoint_.config().hidden); }
  std::int64_t tokens() const { return std::ssize(hidden_) / checkpoint_.config().hidden; }

 private:
  Checkpoint checkpoint_;
  ExpertStore store_;
  DType dtype_;
  LayerId layer_;
  std::vector<float> hidden_;
};

class SameBits : public ::testing::TestWithParam<DType> {};

TEST_P(SameBits, AnyRanksPlacementSelectorPeerOrderAndDedup) {
  Bench bench("qwen3_moe", GetParam());
  const std::string expected = bench.hash_on_one_rank();
  std::mt19937_64 rng(20);
  for (std::int32_t ranks : {1, 2, 3, 4, 6, 8}) {
    for (int i = 0; i < 20; ++i) {
      const Placement placement = testing::random_placement(bench.experts(), ranks, rng);
      for (Selector selector : {Selector::first, Selector::round_robin, Selector::least_load,
                                Selector::locality, Selector::hash}) {
        for (bool dedup : {false, true}) {
          const ProcessGroup peers = testing::random_group(ranks, rng);
          ASSERT_EQ(bench.hash_of({ranks, selector, dedup}, placement, peers), expected)
              << "ranks " << ranks << ", placement " << i << ", selector " << name(selector)
              << ", dedup " << dedup;
        }
      }
    }
  }
}

TEST_P(SameBits, AnyDivisionOfTheTokensOverTheRanks) {
  Bench bench("deepseek_v3", GetParam());
  const std::string expected = bench.hash_on_one_rank();
  std::mt19937_64 rng(4);
  for (std::int32_t ranks : {2, 4, 6}) {
    const Placement placement = testing::random_placement(bench.experts(), ranks, rng);
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(ranks), 0);
    tokens.back() = bench.tokens() - 1;  // all others idle but one
    tokens.front() = 1;
    EXPECT_EQ(bench.hash_of({ranks, Selector::round_robin, true}, placement,
                            testing::random_group(ranks, rng), tokens),
              expected);
  }
}

// Router, routed experts and shared expert: gated, ungated, and gates that multiply the input.
TEST_P(SameBits, ARowAloneAndAmong64Others) {
  for (const std::string family : {"deepseek_v3", "qwen2_moe", "llama4_text"}) {
    Bench bench(family, GetParam());
    const std::size_t d = bench.hidden();
    std::mt19937_64 rng(65);
    std::normal_distribution<float> normal;
    std::vector<float> rows(65 * d);
    for (float& x : rows) x = normal(rng);
    const BlockRun many = bench.run({3, Selector::round_robin, false}, rows);
    for (const std::size_t row : {0U, 31U, 64U}) {
      const BlockRun alone =
          bench.run({1, Selector::first, false}, std::span(rows).subspan(row * d, d));
      const std::size_t k = alone.topk_experts.size();
      EXPECT_EQ(hash(std::span(many.experts_out).subspan(row * d, d)), hash(alone.experts_out));
      EXPECT_EQ(hash(std::span(many.block_out).subspan(row * d, d)), hash(alone.block_out));
      EXPECT_EQ(hash(std::span(many.topk_gates).subspan(row * k, k)), hash(alone.topk_gates));
      EXPECT_TRUE(
          std::ranges::equal(std::span(many.topk_experts).subspan(row * k, k), alone.topk_experts));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, SameBits, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& param) { return std::string(name(param.param)); });

}  // namespace
}  // namespace waybill
