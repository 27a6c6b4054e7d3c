// A MoE layer over the ranks of one process, as tests describe it: tokens in global order, cut over
// the ranks, and what every rank made of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/layer.h"

namespace waybill::testing {

using RunnerFactory = std::function<std::unique_ptr<ExpertRunner>()>;

struct LayerCase {
  LayerOptions options;
  ProcessGroup group = ProcessGroup::identity(1);
  Topology topology = Topology::uniform(1);
  std::shared_ptr<const Placement> placement;
  std::vector<std::int32_t> tokens_per_rank;  // by rank
  std::vector<std::int32_t> experts;          // [T, k] in global token order
  std::vector<float> gates;                   // [T, k]
  std::vector<float> hidden;  // [T, d]; rounded to the layer's dtype where it is bf16
  std::vector<float> shared;  // [T, d], or empty
  ExpertSource source;
  RunnerFactory runner = make_grouped_runner;
  CommOptions comm;
  std::uint64_t generation = 1;
  CheckpointVersion checkpoint;

  std::int32_t tokens() const { return static_cast<std::int32_t>(gates.size()) / options.topk; }
};

// One rank's part of a case, in memory that outlives its step.
class RankStep {
 public:
  RankStep(const LayerCase& layer_case, Rank rank);

  RoutesView routes() const;
  TensorView hidden();
  TensorView output();
  const TensorView* shared();
  // The output rows, widened.
  std::vector<float> result() const;

  std::vector<std::int32_t> experts;
  std::vector<float> gates;

 private:
  TensorView rows(std::vector<float>& wide, std::vector<std::uint16_t>& narrow) const;

  std::int32_t tokens_, topk_, d_;
  DType dtype_;
  std::vector<float> hidden_, output_, shared_;
  std::vector<std::uint16_t> narrow_hidden_, narrow_output_;
  TensorView shared_view_;
};

// The generation of a case's placement, serving.
void load_and_activate(PlacementRegistry& registry, const LayerCase& layer_case);
void load_and_activate(PlacementRegistry& registry, const LayerCase& layer_case,
                       std::uint64_t number);

// Another rank's end with everything passed on; tests override what they change or watch.
class PassingCommunicator : public Communicator {
 public:
  explicit PassingCommunicator(Communicator& comm) : comm_(comm) {}

  const ProcessGroup& group() const override { return comm_.group(); }
  PeerSlot self() const override { return comm_.self(); }
  void all_gather(std::string_view phase, std::span<const std::byte> mine,
                  std::span<std::byte> all) override {
    comm_.all_gather(phase, mine, all);
  }
  Completion all_to_all_v(const AllToAllV& exchange) override {
    return comm_.all_to_all_v(exchange);
  }
  void abort(const Error& cause) noexcept override { comm_.abort(cause); }

 private:
  Communicator& comm_;
};

struct LayerRun {
  std::vector<float> output;        // [T, d] in global token order
  std::vector<StepReport> reports;  // by rank
};
LayerRun run(const LayerCase& layer_case);

// One rank's body of a case that is expected to fail somewhere.
using RankBody = std::function<void(Communicator&, MoeLayer&, RankStep&)>;
// May change what one rank is given before its layer is made.
using Spoil = std::function<void(Rank, LayerCase&)>;

// Told of every exchange that a rank submits.
using Watch = std::function<void(const AllToAllV&)>;

// Runs `body` on every rank, each with a registry of its own, and returns each rank's error; none
// where it returned. What isn't a waybill::Error is rethrown after all ranks ended.
std::vector<std::optional<Error>> errors_of(const LayerCase& layer_case, const RankBody& body,
                                            const Spoil& spoil = {}, const Watch& watch = {});
void forward(Communicator& comm, MoeLayer& layer, RankStep& step);

// Every expert is x -> scale[e] * x, which no gated FFN is: the bundle carries the scale as its
// only weight value, and this runner reads it.
std::unique_ptr<ExpertRunner> make_scaling_runner();
ExpertSource scaling_experts(std::vector<float> scales, std::int32_t hidden, DType dtype);

// Random gated FFNs, packed; the same for equal seeds.
ExpertSource random_experts(std::int32_t experts, std::int32_t hidden, std::int32_t ff, DType dtype,
                            std::uint64_t seed);

}  // namespace waybill::testing
