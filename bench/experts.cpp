// The expert step of one OLMoE layer on the CPU, beside the roofline of this machine on as many
// threads.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "machine_ceilings.h"
#include "table.h"
#include "waybill/expert.h"

namespace waybill::bench {
namespace {

constexpr std::int64_t hidden = 2048;
constexpr std::int64_t ff = 1024;
constexpr std::size_t expert_count = 64;
constexpr std::size_t top_k = 8;
constexpr std::int64_t weights_per_expert = 3 * hidden * ff;

using Random = std::mt19937;

struct Layer {
  std::vector<std::shared_ptr<const ExpertBundle>> bundles;
  std::vector<const ExpertBundle*> experts;

  // Every expert has memory of its own; their values may be the same.
  Layer(DType dtype, const ExpertWeights& weights) {
    for (std::size_t e = 0; e < expert_count; ++e) {
      bundles.push_back(ExpertBundle::pack(weights, dtype));
      experts.push_back(bundles.back().get());
    }
  }
};

// `tokens` tokens that choose top_k different experts each, as segments.
struct Routing {
  std::vector<std::int32_t> offsets{0};
  std::vector<std::int32_t> gather;
  double touched_experts = 0;

  Routing(std::int32_t tokens, Random& random) {
    std::vector<std::vector<std::int32_t>> rows(expert_count);
    std::vector<std::size_t> experts(expert_count);
    std::iota(experts.begin(), experts.end(), 0);
    for (std::int32_t t = 0; t < tokens; ++t) {
      std::shuffle(experts.begin(), experts.end(), random);
      for (std::size_t k = 0; k < top_k; ++k) rows[experts[k]].push_back(t);
    }
    for (const auto& segment : rows) {
      gather.insert(gather.end(), segment.begin(), segment.end());
      offsets.push_back(static_cast<std::int32_t>(gather.size()));
      touched_experts += segment.empty() ? 0 : 1;
    }
  }
};

struct Ceilings {
  double gflops, gbps;
};

Samples times_ms(const auto& work) {
  using Clock = std::chrono::steady_clock;
  Samples times;
  const auto begin = Clock::now();
  work();  // warms up
  while (times.size() < 3 ||
         (times.size() < 50 && Clock::now() - begin < std::chrono::milliseconds(700))) {
    const auto start = Clock::now();
    work();
    times.add(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return times;
}

void measure(const Layer& layer, DType dtype, std::int32_t tokens, ThreadPool& pool,
             const Ceilings& ceilings) {
  Random random(static_cast<unsigned>(tokens));
  // Decode steps go over several routings, so that no cache holds the weights of the next one.
  std::vector<Routing> routings;
  for (int i = 0; i < 8; ++i) routings.emplace_back(tokens, random);
  std::vector<std::byte> input(static_cast<std::size_t>(tokens * hidden) * size_of(dtype));
  std::vector<std::byte> output(input.size() * top_k);
  const auto run_input = [&](const Routing& routing) {
    return RunnerInput{
        TensorView::contiguous(input.data(), dtype, {tokens, hidden}),
        routing.gather,
        TensorView::contiguous(output.data(), dtype, {tokens * std::int64_t{top_k}, hidden}),
        {},
        routing.offsets,
        layer.experts,
        {}};
  };
  const auto runner = make_grouped_runner();
  Workspace workspace;
  for (const Routing& routing : routings) {
    workspace.reserve(runner->workspace_bytes(run_input(routing)));
  }
  std::size_t step = 0;
  const Samples times = times_ms([&] {
    workspace.reset();
    runner->run(run_input(routings[step++ % routings.size()]), workspace, Stream::cpu_inline(),
                &pool);
  });

  double touched = 0;
  for (const Routing& routing : routings) touched += routing.touched_experts;
  touched /= static_cast<double>(routings.size());
  const double gflop = 2e-9 * static_cast<double>(weights_per_expert) *
                       static_cast<double>(static_cast<std::size_t>(tokens) * top_k);
  const double gigabytes = 1e-9 * touched * static_cast<double>(weights_per_expert) *
                           static_cast<double>(size_of(dtype));
  const double roofline = 1e3 * std::max(gflop / ceilings.gflops, gigabytes / ceilings.gbps);
  print({"experts",
         fmt::format("{} tokens {} threads {}", name(dtype), tokens, pool.threads()),
         "ms",
         times,
         roofline,
         {},
         {}});
}

}  // namespace
}  // namespace waybill::bench

int main() {
  using namespace waybill;
  using namespace waybill::bench;
  std::vector<float> values(static_cast<std::size_t>(weights_per_expert));
  Random random(1);
  for (float& value : values) value = static_cast<float>(random() % 2048) * 0x1p-16F - 0x1p-6F;
  const float* first = values.data();
  const ExpertWeights weights{
      TensorView::contiguous(first, DType::f32, {ff, hidden}),
      TensorView::contiguous(first + ff * hidden, DType::f32, {ff, hidden}),
      TensorView::contiguous(first + 2 * ff * hidden, DType::f32, {hidden, ff}),
      {},
      {},
      {}};

  fmt::print("OLMoE layer: d {}, d_ff {}, {} experts, top {}; kernels {}\n", hidden, ff,
             expert_count, top_k, cpu_kernel_target());
  ThreadPool one(1);
  ThreadPool two(2);
  std::vector<std::pair<ThreadPool*, Ceilings>> pools;
  for (ThreadPool* pool : {&one, &two}) {
    pools.push_back({pool, {fma_peak_gflops(*pool), dram_read_gbps(*pool)}});
    const Ceilings& ceilings = pools.back().second;
    fmt::print("{} thread(s): FMA peak {:.1f} GFLOP/s, DRAM read {:.1f} GB/s\n", pool->threads(),
               ceilings.gflops, ceilings.gbps);
  }
  print_header();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto start = std::chrono::steady_clock::now();
    const Layer layer(dtype, weights);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("{} packed at {:.2f} G weights/s\n", name(dtype),
               1e-9 * static_cast<double>(expert_count * weights_per_expert) / seconds);
    for (const std::int32_t tokens : {1, 8, 32, 128, 512}) {
      for (const auto& [pool, ceilings] : pools) measure(layer, dtype, tokens, *pool, ceilings);
    }
  }
}
