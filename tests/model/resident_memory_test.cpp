// An OLMoE layer at its real size stays within the weights and the ledger's peak. A program of its
// own: it reads the whole process's resident high-water mark.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "support/random_checkpoint.h"
#include "support/random_placement.h"
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

TEST(ResidentMemory, StaysWithinWeightsAndLedgerPeak) {
  constexpr testing::RandomShape kOlmoe{2048, 1024, 64, 8};
  constexpr std::int64_t kTokens = 512;
  constexpr std::int32_t kRanks = 4;
  const testing::RandomCheckpoint files(kOlmoe, 7);
  std::vector<float> hidden(kTokens * kOlmoe.hidden);
  std::mt19937 rng(7);
  std::normal_distribution<float> normal;
  for (float& v : hidden) v = normal(rng);

  forget_high_water();
  const Checkpoint checkpoint = Checkpoint::open(files.directory());
  ExpertStore store(checkpoint, DType::bf16);
  PlacementRegistry registry;
  registry.load(
      testing::generation_of(Placement::contiguous(PlacementVersion{"p"}, kOlmoe.experts, kRanks),
                             checkpoint.config().moe_layers));
  registry.activate(PlacementVersion{"p"});
  LocalGroup group(ProcessGroup::identity(kRanks));
  BlockOptions options;
  options.dtype = DType::bf16;
  const BlockRun run = run_block(checkpoint, LayerId{0}, options, store, group, registry,
                                 Topology::uniform(kRanks), hidden);

  Representation representation;
  representation.hidden = kOlmoe.hidden;
  const LiveLedger ledger =
      live_ledger(step_buffers(run.rows, run.bytes, representation), step_events());
  const std::int64_t weights = 3 * kOlmoe.hidden * kOlmoe.ff * kOlmoe.experts * 2;
  const std::int64_t resident = resident_high_water_bytes();
  ASSERT_GT(resident, weights);
  EXPECT_LE(static_cast<double>(resident), 1.25 * static_cast<double>(weights + ledger.peak.value))
      << "weights " << weights << ", ledger peak " << ledger.peak.value;
}

}  // namespace
}  // namespace waybill
