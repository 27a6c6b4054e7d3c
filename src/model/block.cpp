#include "waybill/block.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/narrow_float.h"
#include "waybill/error.h"

namespace waybill {
namespace {

LayerOptions layer_options(const Checkpoint& checkpoint, LayerId layer,
                           const BlockOptions& options) {
  const ModelConfig& config = checkpoint.config();
  LayerOptions result;
  result.layer = layer;
  result.hidden = config.hidden;
  result.experts = config.experts;
  result.topk = config.topk;
  result.dtype = options.dtype;
  result.activation = config.activation;
  result.selector = options.selector;
  result.dedup = options.dedup;
  result.checks = options.checks;
  return result;
}

}  // namespace

struct MoeBlock::State {
  const Router router;
  const Activation activation;
  const std::int64_t hidden;
  const DType dtype;
  const std::int32_t experts;
  std::shared_ptr<const ExpertBundle> shared;
  std::unique_ptr<ExpertRunner> shared_runner;
  MoeLayer layer;
  ThreadPool* pool;
  std::vector<std::uint16_t> narrow_rows;
  std::vector<float> shared_rows, routed_rows;
  Workspace workspace;

  // The rows that the experts read: the originals, or rounded once to the block's dtype.
  TensorView expert_rows(const TensorView& rows) {
    if (dtype == DType::f32) return rows;
    const std::span<const float> wide(rows.as<float>(), static_cast<std::size_t>(rows.elements()));
    narrow_rows.resize(wide.size());
    std::transform(wide.begin(), wide.end(), narrow_rows.begin(), round_to_bf16);
    return TensorView::contiguous(narrow_rows.data(), dtype, {rows.shape[0], rows.shape[1]});
  }

  void run_shared_expert(const TensorView& rows) {
    shared_rows.resize(static_cast<std::size_t>(rows.elements()));
    const std::array<std::int32_t, 2> offsets{0, static_cast<std::int32_t>(rows.shape[0])};
    const std::array<const ExpertBundle*, 1> bundle{shared.get()};
    RunnerInput input;
    input.input = rows;
    input.output =
        TensorView::contiguous(shared_rows.data(), DType::f32, {rows.shape[0], rows.shape[1]});
    input.offsets = offsets;
    input.experts = bundle;
    input.activation = activation;
    workspace.reserve(shared_runner->workspace_bytes(input));
    shared_runner->run(input, workspace, Stream::cpu_inline(), pool).wait();
  }
};

MoeBlock::MoeBlock(const Checkpoint& checkpoint, LayerId layer, const BlockOptions& options,
                   ExpertStore& store, Communicator& comm, PlacementRegistry& registry,
                   const Topology& topology, ThreadPool* pool)
    : state_(new State{checkpoint.router(layer),
                       checkpoint.config().activation,
                       checkpoint.config().hidden,
                       options.dtype,
                       checkpoint.config().experts,
                       store.shared(layer),
                       make_grouped_runner(),
                       MoeLayer(
                           layer_options(checkpoint, layer, options), comm, registry, topology,
                           [&store](LayerId l, ExpertId e) { return store.get(l, e); },
                           make_grouped_runner(), pool),
                       pool,
                       {},
                       {},
                       {},
                       Workspace{}}) {}
MoeBlock::~MoeBlock() = default;

MoeBlock::Output MoeBlock::forward(const TensorView& hidden, std::span<float> experts_out,
                                   std::span<float> block_out) {
  State& s = *state_;
  Output output{route(s.router, hidden), {}};
  const auto tokens = static_cast<std::int32_t>(hidden.shape[0]);
  const Routes routes(tokens, output.routing.topk, s.experts, output.routing.experts,
                      output.routing.gates);
  const TensorView rows = s.expert_rows(hidden);
  if (experts_out.empty()) {
    s.routed_rows.resize(static_cast<std::size_t>(hidden.elements()));
    experts_out = s.routed_rows;
  }
  output.report = s.layer.forward(
      routes.view(), rows,
      TensorView::contiguous(experts_out.data(), DType::f32, {hidden.shape[0], hidden.shape[1]}));
  if (block_out.empty()) return output;
  if (s.shared == nullptr) {
    std::copy(experts_out.begin(), experts_out.end(), block_out.begin());
    return output;
  }
  s.run_shared_expert(rows);
  std::transform(experts_out.begin(), experts_out.end(), s.shared_rows.begin(), block_out.begin(),
                 [](float routed, float shared) { return routed + shared; });
  return output;
}

}  // namespace waybill
