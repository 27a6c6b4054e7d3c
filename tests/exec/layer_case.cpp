#include "exec/layer_case.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <span>

#include "base/narrow_float.h"
#include "support/random_placement.h"

namespace waybill::testing {
namespace {

std::size_t first_token(const LayerCase& layer_case, Rank rank) {
  const auto begin = layer_case.tokens_per_rank.begin();
  return static_cast<std::size_t>(std::accumulate(begin, begin + rank.value, 0));
}

template <class T>
std::vector<T> slice(const std::vector<T>& all, std::size_t first, std::size_t count) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

class ScalingRunner final : public ExpertRunner {
 public:
  std::string_view name() const override { return "scaling"; }
  std::size_t workspace_bytes(const RunnerInput&) const override { return 0; }
  Event run(const RunnerInput& input, Workspace&, const Stream&, ThreadPool*) override {
    for (std::size_t q = 0; q < input.experts.size(); ++q) {
      for (std::int32_t row = input.offsets[q]; row < input.offsets[q + 1]; ++row) {
        scale_row(input, row, static_cast<float>(element(input.experts[q]->weights().gate, 0, 0)));
      }
    }
    return {};
  }

 private:
  static void scale_row(const RunnerInput& input, std::int32_t row, float scale) {
    const auto d = static_cast<std::size_t>(input.input.shape[1]);
    const auto index = static_cast<std::size_t>(row);
    const float* from = input.input.as<float>() + static_cast<std::size_t>(input.gather[index]) * d;
    float* to = input.output.as<float>() + static_cast<std::size_t>(input.scatter[index]) * d;
    for (std::size_t i = 0; i < d; ++i) to[i] = scale * from[i];
  }
};

class WatchedCommunicator final : public PassingCommunicator {
 public:
  WatchedCommunicator(Communicator& comm, const Watch& watch)
      : PassingCommunicator(comm), watch_(watch) {}

  Completion all_to_all_v(const AllToAllV& exchange) override {
    if (watch_) watch_(exchange);
    return PassingCommunicator::all_to_all_v(exchange);
  }

 private:
  const Watch& watch_;
};

// An expert's weight values in one allocation.
struct Weights {
  std::vector<float> gate, up, down;

  ExpertWeights views(std::int64_t hidden, std::int64_t ff) const {
    ExpertWeights weights;
    weights.gate = TensorView::contiguous(gate.data(), DType::f32, {ff, hidden});
    weights.up = TensorView::contiguous(up.data(), DType::f32, {ff, hidden});
    weights.down = TensorView::contiguous(down.data(), DType::f32, {hidden, ff});
    return weights;
  }
};

ExpertSource of_bundles(std::vector<std::shared_ptr<const ExpertBundle>> bundles) {
  return
      [bundles = std::move(bundles)](LayerId, ExpertId expert) { return bundles[expert.index()]; };
}

}  // namespace

RankStep::RankStep(const LayerCase& layer_case, Rank rank)
    : tokens_(layer_case.tokens_per_rank[rank.index()]),
      topk_(layer_case.options.topk),
      d_(layer_case.options.hidden),
      dtype_(layer_case.options.dtype) {
  const std::size_t first = first_token(layer_case, rank);
  const auto tokens = static_cast<std::size_t>(tokens_);
  const auto k = static_cast<std::size_t>(topk_), d = static_cast<std::size_t>(d_);
  experts = slice(layer_case.experts, first * k, tokens * k);
  gates = slice(layer_case.gates, first * k, tokens * k);
  hidden_ = slice(layer_case.hidden, first * d, tokens * d);
  if (!layer_case.shared.empty()) shared_ = slice(layer_case.shared, first * d, tokens * d);
  // What isn't written shows.
  output_.assign(tokens * d, -12345.0F);
  narrow_output_.assign(tokens * d, 0x7fc1);
  narrow_hidden_.resize(hidden_.size());
  std::ranges::transform(hidden_, narrow_hidden_.begin(), round_to_bf16);
}

RoutesView RankStep::routes() const { return {tokens_, topk_, experts, gates}; }

TensorView RankStep::rows(std::vector<float>& wide, std::vector<std::uint16_t>& narrow) const {
  void* data = dtype_ == DType::f32 ? static_cast<void*>(wide.data()) : narrow.data();
  return TensorView::contiguous(data, dtype_, {tokens_, d_});
}
TensorView RankStep::hidden() { return rows(hidden_, narrow_hidden_); }
TensorView RankStep::output() { return rows(output_, narrow_output_); }

const TensorView* RankStep::shared() {
  if (shared_.empty()) return nullptr;
  shared_view_ = TensorView::contiguous(shared_.data(), DType::f32, {tokens_, d_});
  return &shared_view_;
}

std::vector<float> RankStep::result() const {
  if (dtype_ == DType::f32) return output_;
  std::vector<float> wide(narrow_output_.size());
  std::ranges::transform(narrow_output_, wide.begin(), widen_bf16);
  return wide;
}

void load_and_activate(PlacementRegistry& registry, const LayerCase& layer_case) {
  load_and_activate(registry, layer_case, layer_case.generation);
}

void load_and_activate(PlacementRegistry& registry, const LayerCase& layer_case,
                       std::uint64_t number) {
  Generation generation =
      generation_of(*layer_case.placement, std::array{layer_case.options.layer}, number);
  generation.checkpoint = layer_case.checkpoint;
  generation.group = layer_case.group.id();
  const PlacementVersion version = generation.version;
  registry.load(std::move(generation));
  registry.activate(version);
}

LayerRun run(const LayerCase& layer_case) {
  PlacementRegistry registry;
  load_and_activate(registry, layer_case);
  const auto ranks = static_cast<std::size_t>(layer_case.group.size());
  std::vector<std::vector<float>> outputs(ranks);
  LayerRun result;
  result.reports.resize(ranks);
  LocalGroup(layer_case.group, layer_case.comm).run([&](Communicator& comm) {
    MoeLayer layer(layer_case.options, comm, registry, layer_case.topology, layer_case.source,
                   layer_case.runner());
    RankStep step(layer_case, comm.rank());
    result.reports[comm.rank().index()] =
        layer.forward(step.routes(), step.hidden(), step.output(), step.shared());
    outputs[comm.rank().index()] = step.result();
  });
  for (const std::vector<float>& rows : outputs) {
    result.output.insert(result.output.end(), rows.begin(), rows.end());
  }
  return result;
}

std::vector<std::optional<Error>> errors_of(const LayerCase& layer_case, const RankBody& body,
                                            const Spoil& spoil, const Watch& watch) {
  std::vector<std::optional<Error>> errors(static_cast<std::size_t>(layer_case.group.size()));
  try {
    LocalGroup(layer_case.group, layer_case.comm).run([&](Communicator& end) {
      WatchedCommunicator comm(end, watch);
      LayerCase mine = layer_case;
      if (spoil) spoil(comm.rank(), mine);
      try {
        PlacementRegistry registry;
        load_and_activate(registry, mine);
        MoeLayer layer(mine.options, comm, registry, mine.topology, mine.source, mine.runner());
        RankStep step(mine, comm.rank());
        body(comm, layer, step);
      } catch (const Error& error) {
        errors[comm.rank().index()] = error;
        throw;
      }
    });
  } catch (const Error&) {  // each rank's own error is what the tests look at
  }
  return errors;
}

void forward(Communicator&, MoeLayer& layer, RankStep& step) {
  layer.forward(step.routes(), step.hidden(), step.output(), step.shared());
}

std::unique_ptr<ExpertRunner> make_scaling_runner() { return std::make_unique<ScalingRunner>(); }

ExpertSource scaling_experts(std::vector<float> scales, std::int32_t hidden, DType dtype) {
  std::vector<std::shared_ptr<const ExpertBundle>> bundles;
  for (const float scale : scales) {
    const std::vector<float> row(static_cast<std::size_t>(hidden), scale);
    const auto weights = std::make_shared<const Weights>(Weights{row, row, row});
    bundles.push_back(ExpertBundle::borrow(weights->views(hidden, 1), dtype, weights));
  }
  return of_bundles(std::move(bundles));
}

ExpertSource random_experts(std::int32_t experts, std::int32_t hidden, std::int32_t ff, DType dtype,
                            std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal(0.0F, 0.3F);
  std::vector<std::shared_ptr<const ExpertBundle>> bundles;
  for (std::int32_t e = 0; e < experts; ++e) {
    Weights weights;
    for (std::vector<float>* matrix : {&weights.gate, &weights.up, &weights.down}) {
      matrix->resize(static_cast<std::size_t>(hidden) * static_cast<std::size_t>(ff));
      std::ranges::generate(*matrix, [&] { return normal(rng); });
    }
    bundles.push_back(ExpertBundle::pack(weights.views(hidden, ff), dtype));
  }
  return of_bundles(std::move(bundles));
}

}  // namespace waybill::testing
