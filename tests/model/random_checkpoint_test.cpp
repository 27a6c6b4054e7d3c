// New checkpoints of every family: they open whole, their blocks run over ranks as the direct
// evaluation says, and shards change nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "model/random_checkpoint.h"
#include "support/fault.h"
#include "support/random_placement.h"
#include "support/temporary_folder.h"
#include "waybill/block.h"

namespace waybill {
namespace {

using testing::fault;
using testing::TemporaryFolder;

RandomCheckpoint small(std::string_view family, std::int32_t shards = 1) {
  return {.family = std::string(family),
          .hidden = 40,
          .ff = 24,
          .experts = 6,
          .topk = 2,
          .layers = 2,
          .shards = shards,
          .seed = 3};
}

std::vector<float> random_rows(std::int64_t tokens, std::int64_t width) {
  std::mt19937_64 rng(9);
  std::normal_distribution<float> normal;
  std::vector<float> rows(static_cast<std::size_t>(tokens * width));
  for (float& value : rows) value = normal(rng);
  return rows;
}

BlockRun run(const Checkpoint& checkpoint, LayerId layer, std::int32_t ranks,
             std::span<const float> hidden, bool dedup = false) {
  PlacementRegistry registry;
  registry.load(testing::generation_of(
      Placement::contiguous(PlacementVersion{"placement-0"}, checkpoint.config().experts, ranks),
      checkpoint.config().moe_layers));
  registry.activate(PlacementVersion{"placement-0"});
  ExpertStore store(checkpoint, DType::f32);
  LocalGroup group(ProcessGroup::identity(ranks));
  BlockOptions options;
  options.dedup = dedup;
  options.checks = Checks::full;
  return run_block(checkpoint, layer, options, store, group, registry, Topology::uniform(ranks),
                   hidden);
}

// Largest difference of a run to the direct evaluation, over the largest magnitude.
double error_of(const BlockRun& run, const Checkpoint& checkpoint, LayerId layer,
                std::span<const float> hidden) {
  const auto d = static_cast<std::size_t>(checkpoint.config().hidden);
  const auto k = static_cast<std::size_t>(checkpoint.config().topk);
  double difference = 0, magnitude = 0;
  for (std::size_t t = 0; t < hidden.size() / d; ++t) {
    const DirectRow row = evaluate_directly(checkpoint, layer, hidden.subspan(t * d, d),
                                            std::span(run.topk_experts).subspan(t * k, k),
                                            std::span(run.topk_gates).subspan(t * k, k));
    for (std::size_t i = 0; i < d; ++i) {
      difference = std::max(difference, std::abs(run.block_out[t * d + i] - row.block_out[i]));
      magnitude = std::max(magnitude, std::abs(row.block_out[i]));
    }
  }
  return difference / magnitude;
}

class NewCheckpoint : public ::testing::TestWithParam<std::string_view> {};

TEST_P(NewCheckpoint, RunsOverRanksAsTheDirectEvaluationSays) {
  const std::vector<float> hidden = random_rows(11, 40);
  for (const std::int32_t shards : {1, 3}) {
    const TemporaryFolder folder;
    write_random_checkpoint(small(GetParam(), shards), folder.path());
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    EXPECT_EQ(checkpoint.config().moe_layers.size(), 2U);
    EXPECT_EQ(checkpoint.config().experts, 6);
    EXPECT_EQ(checkpoint.config().topk, 2);
    EXPECT_EQ(checkpoint.config().ff, 24);
    EXPECT_TRUE(checkpoint.inventory().unused.empty());
    for (const LayerId layer : checkpoint.config().moe_layers) {
      const BlockRun one = run(checkpoint, layer, 1, hidden);
      EXPECT_LE(error_of(one, checkpoint, layer, hidden), 5e-6);
      for (const std::int32_t ranks : {3, 4}) {
        EXPECT_EQ(run(checkpoint, layer, ranks, hidden).block_out, one.block_out) << ranks;
      }
    }
  }
}

TEST_P(NewCheckpoint, HasTheSameValuesInShards) {
  const TemporaryFolder whole, cut, other;
  write_random_checkpoint(small(GetParam()), whole.path());
  write_random_checkpoint(small(GetParam(), 4), cut.path());
  RandomCheckpoint reseeded = small(GetParam());
  reseeded.seed = 4;
  write_random_checkpoint(reseeded, other.path());
  const auto gate = [](const Checkpoint& checkpoint) {
    const TensorView view = checkpoint.router(LayerId(1)).weight;
    const auto* begin = view.as<std::uint16_t>();
    return std::vector<std::uint16_t>(begin, begin + view.elements());
  };
  const Checkpoint a = Checkpoint::open(whole.path());
  EXPECT_EQ(gate(a), gate(Checkpoint::open(cut.path())));
  EXPECT_NE(gate(a), gate(Checkpoint::open(other.path())));
  for (const std::int32_t e : {0, 5}) {
    EXPECT_EQ(parameter_digest(a.expert(LayerId(0), ExpertId(e))),
              parameter_digest(Checkpoint::open(cut.path()).expert(LayerId(0), ExpertId(e))));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, NewCheckpoint, ::testing::ValuesIn(family_names()),
                         [](const auto& family) { return std::string(family.param); });

TEST(NewCheckpointFiles, AreCountedAndNamedAsTheHubNamesThem) {
  const TemporaryFolder folder;
  const std::string directory = folder.file("new/checkpoint");
  std::vector<std::int32_t> begun;
  const WrittenCheckpoint written = write_random_checkpoint(
      small("mixtral", 2), directory, [&](std::int32_t file) { begun.push_back(file); });
  EXPECT_EQ(written.tensors, 2U * (1 + 6 * 3));
  EXPECT_EQ(written.tensor_bytes, 2U * 2 * (6 * 40 + 6 * 3 * 40 * 24));
  EXPECT_EQ(written.files, 4U);
  EXPECT_EQ(begun, (std::vector<std::int32_t>{1, 2}));
  for (const char* name :
       {"config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors"}) {
    EXPECT_TRUE(std::filesystem::exists(directory + "/" + name)) << name;
  }
}

TEST(NewCheckpointRefuses, SizesThatTheFamilyCannotHave) {
  const TemporaryFolder folder;
  const auto refuse = [&](auto edit, const char* family = "qwen3_moe") {
    RandomCheckpoint checkpoint = small(family);
    edit(checkpoint);
    return fault([&] { write_random_checkpoint(checkpoint, folder.file("new")); });
  };
  EXPECT_EQ(refuse([](auto& c) { c.topk = 7; }).code(), Code::TopKExceedsExperts);
  EXPECT_EQ(refuse([](auto& c) { c.hidden = 0; }).coordinate("field"), "hidden_size");
  EXPECT_EQ(refuse([](auto& c) { c.layers = 0; }).coordinate("field"), "num_hidden_layers");
  EXPECT_EQ(refuse([](auto& c) { c.family = "gpt2"; }).code(), Code::UnknownFamily);
  EXPECT_EQ(refuse([](auto& c) { c.shards = 0; }).coordinate("field"), "shards");
  EXPECT_EQ(refuse([](auto& c) { c.shards = 2 * 19 + 1; }).coordinate("field"), "shards");
  EXPECT_EQ(refuse([](auto& c) { c.topk = 3; }, "phimoe").coordinate("field"),
            "num_experts_per_tok");
  EXPECT_FALSE(std::filesystem::exists(folder.file("new")));
}

TEST(NewCheckpointRefuses, AFolderThatHoldsSomethingOrHasNoRoom) {
  const TemporaryFolder folder;
  folder.write("config.json", "{}");
  EXPECT_EQ(fault([&] { write_random_checkpoint(small("olmoe"), folder.path()); }).code(),
            Code::FileUnwritable);
  RandomCheckpoint huge = small("olmoe");
  huge.hidden = huge.ff = 1 << 20;
  huge.experts = 1 << 14;
  const Error error = fault([&] { write_random_checkpoint(huge, folder.file("huge")); });
  EXPECT_EQ(error.code(), Code::FileUnwritable);
}

TEST(InputScaling, SendsNoSharedRowWhenATokenHasSeveralExperts) {
  const TemporaryFolder folder;
  write_random_checkpoint(small("llama4_text"), folder.path());
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  const std::vector<float> hidden = random_rows(5, 40);
  const Error error = fault([&] { run(checkpoint, LayerId(0), 2, hidden, true); });
  EXPECT_EQ(error.code(), Code::InvalidValue);
  EXPECT_EQ(error.coordinate("field"), "dedup");
}

TEST(InputScaling, SharesRowsWhenATokenHasOneExpert) {
  const TemporaryFolder folder;
  RandomCheckpoint shape = small("llama4_text");
  shape.topk = 1;
  write_random_checkpoint(shape, folder.path());
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  const std::vector<float> hidden = random_rows(5, 40);
  const BlockRun deduped = run(checkpoint, LayerId(0), 3, hidden, true);
  EXPECT_EQ(deduped.block_out, run(checkpoint, LayerId(0), 3, hidden).block_out);
  EXPECT_EQ(deduped.rows.tokens.value, 5);
}

TEST(InputScaling, CountsTokensAndRoutesOfTheModel) {
  const TemporaryFolder folder;
  write_random_checkpoint(small("llama4_text"), folder.path());
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  const BlockRun two = run(checkpoint, LayerId(0), 3, random_rows(5, 40));
  EXPECT_EQ(two.rows.tokens.value, 5);
  EXPECT_EQ(two.rows.routes.value, 10);
}

}  // namespace
}  // namespace waybill
