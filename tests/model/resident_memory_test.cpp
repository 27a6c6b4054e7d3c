// An OLMoE layer at its real size stays within the weights and the ledger's peak. A program of its
// own: it reads the whole process's resident high-water mark.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "model/random_checkpoint.h"
#include "support/random_placement.h"
#include "support/temporary_folder.h"
#include "waybill/block.h"

namespace waybill {
namespace {

std::int64_t resident_high_water_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  }
  return -1;
}

void forget_high_water() { std::ofstream("/proc/self/clear_refs") << "5"; }

class ResidentMemory : public ::testing::TestWithParam<DType> {};

TEST_P(ResidentMemory, StaysWithinWeightsAndLedgerPeak) {
  const RandomCheckpoint olmoe{
      .family = "olmoe", .hidden = 2048, .ff = 1024, .experts = 64, .topk = 8, .layers = 1};
  constexpr std::int64_t kTokens = 512;
  constexpr std::int32_t kRanks = 4;
  const testing::TemporaryFolder folder;
  write_random_checkpoint(olmoe, folder.path());
  std::vector<float> hidden(static_cast<std::size_t>(kTokens * olmoe.hidden));
  std::mt19937 rng(7);
  std::normal_distribution<float> normal;
  for (float& v : hidden) v = normal(rng);

  forget_high_water();
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  ExpertStore store(checkpoint, GetParam());
  PlacementRegistry registry;
  registry.load(
      testing::generation_of(Placement::contiguous(PlacementVersion{"p"}, olmoe.experts, kRanks),
                             checkpoint.config().moe_layers));
  registry.activate(PlacementVersion{"p"});
  LocalGroup group(ProcessGroup::identity(kRanks));
  BlockOptions options;
  options.dtype = GetParam();
  const BlockRun run = run_block(checkpoint, LayerId{0}, options, store, group, registry,
                                 Topology::uniform(kRanks), hidden);

  const LiveLedger ledger =
      live_ledger(step_buffers(run.rows, run.bytes, run.representation), step_events());
  const std::int64_t weights = std::int64_t{3} * olmoe.hidden * olmoe.ff * olmoe.experts *
                               static_cast<std::int64_t>(size_of(GetParam()));
  const std::int64_t resident = resident_high_water_bytes();
  ASSERT_GT(resident, weights);
  EXPECT_LE(static_cast<double>(resident), 1.25 * static_cast<double>(weights + ledger.peak.value))
      << "weights " << weights << ", ledger peak " << ledger.peak.value;
}

INSTANTIATE_TEST_SUITE_P(DTypes, ResidentMemory, ::testing::Values(DType::bf16, DType::f32),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace waybill
