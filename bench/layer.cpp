// One forward step of an OLMoE layer over in-process ranks, phase by phase on the slowest rank,
// beside the experts' roofline measured in the same run with as many threads as compute: a rank is
// a thread, and no more of them run at once than the machine has.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "machine_ceilings.h"
#include "table.h"
#include "waybill/layer.h"

namespace waybill::bench {
namespace {

constexpr std::int64_t kHidden = 2048, kFf = 1024;
constexpr std::int32_t kExperts = 64, kTopk = 8, kTokens = 512, kRanks = 4;
constexpr int kSteps = 15, kWarmSteps = 3;

// Random experts, packed once and shared by the ranks.
std::vector<std::shared_ptr<const ExpertBundle>> random_experts(DType dtype) {
  std::mt19937 rng(1);
  std::vector<std::shared_ptr<const ExpertBundle>> bundles;
  std::vector<float> values(static_cast<std::size_t>(3 * kHidden * kFf));
  for (std::int32_t e = 0; e < kExperts; ++e) {
    for (float& v : values) v = (static_cast<float>(rng() >> 8) * 0x1p-24F - 0.5F) * 0.05F;
    ExpertWeights weights;
    weights.gate = TensorView::contiguous(values.data(), DType::f32, {kFf, kHidden});
    weights.up = TensorView::contiguous(values.data() + kFf * kHidden, DType::f32, {kFf, kHidden});
    weights.down =
        TensorView::contiguous(values.data() + 2 * kFf * kHidden, DType::f32, {kHidden, kFf});
    bundles.push_back(ExpertBundle::pack(weights, dtype));
  }
  return bundles;
}

// k different experts a token, uniformly.
Routes random_routes(std::int32_t tokens, std::mt19937& rng) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens * kTopk)), all(kExperts);
  for (std::int32_t e = 0; e < kExperts; ++e) all[static_cast<std::size_t>(e)] = e;
  for (std::int32_t t = 0; t < tokens; ++t) {
    std::ranges::shuffle(all, rng);
    std::copy_n(all.begin(), kTopk, ids.begin() + std::ptrdiff_t{t} * kTopk);
  }
  const std::vector<float> gates(ids.size(), 1.0F / kTopk);
  return {tokens, kTopk, kExperts, ids, gates};
}

struct Phase {
  const char* name;
  Nanoseconds StepReport::Times::*time;
};
constexpr Phase kPhases[] = {
    {"plan", &StepReport::Times::plan},       {"agree", &StepReport::Times::agree},
    {"pack", &StepReport::Times::pack},       {"dispatch", &StepReport::Times::dispatch},
    {"experts", &StepReport::Times::experts}, {"return", &StepReport::Times::give_back},
    {"combine", &StepReport::Times::combine}, {"total", &StepReport::Times::total},
};

// reports[step][rank].
using StepReports = std::vector<std::vector<StepReport>>;

StepReports run_steps(DType dtype, LocalGroup& group, PlacementRegistry& registry) {
  const auto experts = random_experts(dtype);
  StepReports reports(kSteps, std::vector<StepReport>(kRanks));
  group.run([&](Communicator& comm) {
    LayerOptions options;
    options.hidden = kHidden;
    options.experts = kExperts;
    options.topk = kTopk;
    options.dtype = dtype;
    MoeLayer layer(options, comm, registry, Topology::uniform(kRanks),
                   [&](LayerId, ExpertId e) { return experts[e.index()]; });
    std::mt19937 rng(static_cast<unsigned>(comm.rank().value));
    constexpr std::int32_t tokens = kTokens / kRanks;
    std::vector<std::byte> hidden(static_cast<std::size_t>(tokens * kHidden) * size_of(dtype));
    if (dtype == DType::f32) {
      for (float& v : std::span(reinterpret_cast<float*>(hidden.data()), hidden.size() / 4)) {
        v = static_cast<float>(rng() >> 8) * 0x1p-23F - 1.0F;
      }
    } else {  // bf16 magnitudes in [0.5, 1), random sign
      for (auto& v :
           std::span(reinterpret_cast<std::uint16_t*>(hidden.data()), hidden.size() / 2)) {
        v = static_cast<std::uint16_t>(0x3F00U | (rng() & 0x807FU));
      }
    }
    std::vector<float> output(static_cast<std::size_t>(tokens * kHidden));
    for (int step = 0; step < kWarmSteps + kSteps; ++step) {
      const Routes routes = random_routes(tokens, rng);
      const StepReport report = layer.forward(
          routes.view(), TensorView::contiguous(hidden.data(), dtype, {tokens, kHidden}),
          TensorView::contiguous(output.data(), DType::f32, {tokens, kHidden}));
      if (step >= kWarmSteps) reports[step - kWarmSteps][comm.rank().index()] = report;
    }
  });
  return reports;
}

// Of each step, on the rank where the phase takes longest.
Samples slowest_ms(const StepReports& reports, Nanoseconds StepReport::Times::*phase) {
  Samples samples;
  for (const std::vector<StepReport>& ranks : reports) {
    std::int64_t slowest = 0;
    for (const StepReport& rank : ranks) slowest = std::max(slowest, (rank.time.*phase).value);
    samples.add(static_cast<double>(slowest) * 1e-6);
  }
  return samples;
}

void print_layer(DType dtype) {
  PlacementRegistry registry;
  Generation generation;
  generation.version = PlacementVersion{"bench"};
  generation.layers[LayerId{0}] = std::make_shared<const Placement>(
      Placement::contiguous(generation.version, kExperts, kRanks));
  registry.load(generation);
  registry.activate(generation.version);
  LocalGroup group(ProcessGroup::identity(kRanks));
  const StepReports reports = run_steps(dtype, group, registry);

  const auto threads = static_cast<std::int32_t>(
      std::clamp(std::thread::hardware_concurrency(), 1U, static_cast<unsigned>(kRanks)));
  ThreadPool cores(threads);
  const double flops = 6.0 * kTokens * kTopk * kHidden * kFf;
  const double bytes = 3.0 * kExperts * kHidden * kFf * static_cast<double>(size_of(dtype));
  const double roofline_ms =
      std::max(flops / fma_peak_gflops(cores), bytes / dram_read_gbps(cores)) * 1e-6;
  fmt::print(
      "{}: {} tokens, {} ranks, {} experts of {} x {}, k {}; ceiling: the experts on {} "
      "threads\n",
      name(dtype), kTokens, kRanks, kExperts, kHidden, kFf, kTopk, threads);
  print_header();
  const Samples totals = slowest_ms(reports, &StepReport::Times::total);
  for (const Phase& phase : kPhases) {
    Row row{"layer", fmt::format("{} {}", name(dtype), phase.name),
            "ms",    slowest_ms(reports, phase.time),
            {},      {},
            {}};
    const bool is_bounded =
        phase.time == &StepReport::Times::experts || phase.time == &StepReport::Times::total;
    if (is_bounded) row.ceiling = roofline_ms;
    if (phase.time == &StepReport::Times::plan) row.limit = 0.03 * totals.median();
    print(row);
  }
}

}  // namespace
}  // namespace waybill::bench

int main() {
  waybill::bench::print_layer(waybill::DType::f32);
  waybill::bench::print_layer(waybill::DType::bf16);
}
