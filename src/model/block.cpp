#include "waybill/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/narrow_float.h"
#include "exec/combine_rows.h"
#include "exec/row_tensors.h"
#include "model/input_scaling.h"
#include "waybill/error.h"

namespace waybill {
namespace {

LayerOptions layer_options(const Checkpoint& checkpoint, LayerId layer,
                           const BlockOptions& options) {
  const ModelConfig& config = checkpoint.config();
  check_dedup(config, options.dedup);
  LayerOptions result;
  result.layer = layer;
  result.hidden = config.hidden;
  result.experts = config.experts;
  result.topk = config.scales_input ? 1 : config.topk;
  result.dtype = options.dtype;
  result.activation = config.activation;
  result.selector = options.selector;
  result.dedup = options.dedup;
  result.checks = options.checks;
  return result;
}

}  // namespace

void check_dedup(const ModelConfig& model, bool dedup) {
  if (!dedup || !model.scales_input || model.topk == 1) return;
  throw Error(Code::InvalidValue)
      .at("field", "dedup")
      .at("family", model.family)
      .expected("off")
      .found("on")
      .note(
          "the family's gates multiply the experts' input, so a token's experts read different "
          "rows and one copy can't serve them all");
}

struct MoeBlock::State {
  Communicator& comm;
  const Router router;
  const bool scales_input;
  const Activation activation;
  const DType dtype;
  const std::int32_t experts;
  std::shared_ptr<const ExpertBundle> shared;
  const std::optional<Router> shared_router;
  std::unique_ptr<ExpertRunner> shared_runner;
  MoeLayer layer;
  ThreadPool* pool;
  std::vector<std::uint16_t> narrow_rows = {};
  std::vector<float> shared_rows = {}, unwanted_rows = {};
  Workspace workspace = Workspace{};

  std::int64_t hidden_width() const { return router.weight.shape[1]; }

  Output forward(const TensorView& hidden, std::span<float> experts_out,
                 std::span<float> block_out);
  void check(const TensorView& hidden, std::span<const float> experts_out,
             std::span<const float> block_out) const;

  // The rows that experts read: as they are, or rounded once to the block's dtype.
  TensorView expert_rows(const TensorView& rows) {
    if (dtype == DType::f32) return rows;
    const std::span<const float> wide(rows.as<float>(), static_cast<std::size_t>(rows.elements()));
    narrow_rows.resize(wide.size());
    std::transform(wide.begin(), wide.end(), narrow_rows.begin(), round_to_bf16);
    return TensorView::contiguous(narrow_rows.data(), dtype, {rows.shape[0], rows.shape[1]});
  }

  CombineTarget target(std::int64_t tokens, std::span<float> experts_out,
                       std::span<float> block_out);
  StepReport run_experts(const TensorView& hidden, const Routes& routes, const CombineTarget& to);
  StepReport run_experts_on_scaled_rows(const TensorView& hidden, const Routes& routes,
                                        const CombineTarget& to);
  void run_shared_expert(const TensorView& hidden);
  void scale_shared_rows(std::span<const float> gates);
};

void MoeBlock::State::check(const TensorView& hidden, std::span<const float> experts_out,
                            std::span<const float> block_out) const {
  check_rows(hidden, "hidden", hidden.shape[0], hidden_width(), {DType::f32});
  const auto check_size = [&](std::string_view tensor, std::span<const float> out) {
    const auto wanted = static_cast<std::size_t>(hidden.elements());
    if (out.empty() || out.size() == wanted) return;
    throw Error(Code::ShapeMismatch)
        .at("tensor", tensor)
        .expected(fmt::format("{} elements, as hidden has, or none", wanted))
        .found(out.size());
  };
  check_size("experts_out", experts_out);
  check_size("block_out", block_out);
}

MoeBlock::Output MoeBlock::State::forward(const TensorView& hidden, std::span<float> experts_out,
                                          std::span<float> block_out) {
  check(hidden, experts_out, block_out);
  Output output{route(router, hidden), {}};
  const RoutingResult& routing = output.routing;
  const Routes routes(static_cast<std::int32_t>(hidden.shape[0]), routing.topk, experts,
                      routing.experts, routing.gates);
  if (shared != nullptr && !block_out.empty()) run_shared_expert(hidden);
  output.report = run_experts(hidden, routes, target(hidden.shape[0], experts_out, block_out));
  return output;
}

CombineTarget MoeBlock::State::target(std::int64_t tokens, std::span<float> experts_out,
                                      std::span<float> block_out) {
  const auto rows = [&](std::span<float> values) {
    return TensorView::contiguous(values.data(), DType::f32, {tokens, hidden_width()});
  };
  CombineTarget to;
  if (!block_out.empty()) {
    to.output = rows(block_out);
    if (shared != nullptr) to.shared = rows(shared_rows);
    if (!experts_out.empty()) to.routed = rows(experts_out);
  } else if (!experts_out.empty()) {
    to.output = rows(experts_out);
  } else {
    unwanted_rows.resize(static_cast<std::size_t>(tokens * hidden_width()));
    to.output = rows(unwanted_rows);
  }
  return to;
}

StepReport MoeBlock::State::run_experts(const TensorView& hidden, const Routes& routes,
                                        const CombineTarget& to) {
  if (scales_input) return run_experts_on_scaled_rows(hidden, routes, to);
  return layer.forward(routes.view(), expert_rows(hidden), to.output,
                       to.shared.data == nullptr ? nullptr : &to.shared,
                       to.routed.data == nullptr ? nullptr : &to.routed);
}

StepReport MoeBlock::State::run_experts_on_scaled_rows(const TensorView& hidden,
                                                       const Routes& routes,
                                                       const CombineTarget& to) {
  const RoutesView gated = routes.view();
  const std::vector<float> rows = scaled_rows(hidden, gated);
  const std::int64_t d = hidden_width();
  const std::vector<float> ones(gated.gates.size(), 1.0F);
  const Routes single(gated.size(), 1, experts, gated.experts, ones);
  std::vector<float> by_route(rows.size());
  StepReport report =
      layer.forward(single.view(),
                    expert_rows(TensorView::contiguous(rows.data(), DType::f32, {gated.size(), d})),
                    TensorView::contiguous(by_route.data(), DType::f32, {gated.size(), d}));
  report.tokens = gated.tokens;
  add_routes(by_route, {gated.tokens, gated.topk, gated.experts, ones}, to);
  return report;
}

void MoeBlock::State::run_shared_expert(const TensorView& hidden) {
  const TensorView rows = expert_rows(hidden);
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
  if (shared_router) scale_shared_rows(route(*shared_router, hidden).gates);
}

void MoeBlock::State::scale_shared_rows(std::span<const float> gates) {
  if (gates.empty()) return;
  const std::size_t d = shared_rows.size() / gates.size();
  for (std::size_t i = 0; i < shared_rows.size(); ++i) shared_rows[i] *= gates[i / d];
}

MoeBlock::MoeBlock(const Checkpoint& checkpoint, LayerId layer, const BlockOptions& options,
                   ExpertStore& store, Communicator& comm, PlacementRegistry& registry,
                   const Topology& topology, ThreadPool* pool)
    : state_(new State{
          .comm = comm,
          .router = checkpoint.router(layer),
          .scales_input = checkpoint.config().scales_input,
          .activation = checkpoint.config().activation,
          .dtype = options.dtype,
          .experts = checkpoint.config().experts,
          .shared = store.shared(layer),
          .shared_router = checkpoint.shared_expert_router(layer),
          .shared_runner = make_grouped_runner(),
          .layer = MoeLayer(
              layer_options(checkpoint, layer, options), comm, registry, topology,
              [&store](LayerId l, ExpertId e) { return store.get(l, e); }, make_grouped_runner(),
              pool),
          .pool = pool,
      }) {}
MoeBlock::~MoeBlock() = default;

// What fails before the layer starts, or after it, must not leave the peers waiting either.
MoeBlock::Output MoeBlock::forward(const TensorView& hidden, std::span<float> experts_out,
                                   std::span<float> block_out) {
  try {
    return state_->forward(hidden, experts_out, block_out);
  } catch (const Error& error) {
    state_->comm.abort(error);
    throw;
  } catch (const std::exception& error) {
    state_->comm.abort(Error(Code::PeerAborted).note(error.what()));
    throw;
  } catch (...) {
    state_->comm.abort(Error(Code::PeerAborted).note("an exception of unknown type"));
    throw;
  }
}

}  // namespace waybill
