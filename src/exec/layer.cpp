#include "waybill/layer.h"

#include <cassert>
#include <utility>

#include "exec/layer_state.h"
#include "waybill/error.h"

namespace waybill {
namespace {

void check_options(const LayerOptions& options) {
  const auto at_least_one = [](std::string_view field, std::int32_t value) {
    if (value >= 1) return;
    throw Error(Code::InvalidValue).at("field", field).expected("at least 1").found(value);
  };
  at_least_one("hidden", options.hidden);
  at_least_one("experts", options.experts);
  at_least_one("topk", options.topk);
  if (options.topk > options.experts) {
    throw Error(Code::TopKExceedsExperts).expected(options.experts).found(options.topk);
  }
  if (options.dtype != DType::f32 && options.dtype != DType::bf16) {
    throw Error(Code::DtypeMismatch)
        .at("field", "dtype")
        .expected("f32 or bf16")
        .found(options.dtype);
  }
}

}  // namespace

void DispatchState::abandon() {
  for (RowExchange* exchange : {&payload, &fields, &results, &executed}) {
    exchange->completion = Completion();
  }
  if (lease) lease.release();
  phase = Phase::released;
}

MoeLayer::State::State(LayerOptions layer_options, Communicator& communicator,
                       PlacementRegistry& placements, Topology ranks, ExpertSource source,
                       std::unique_ptr<ExpertRunner> expert_runner, ThreadPool* threads)
    : options(std::move(layer_options)),
      comm(communicator),
      registry(placements),
      topology(std::move(ranks)),
      expert_source(std::move(source)),
      runner(std::move(expert_runner)),
      pool(threads) {
  check_options(options);
  assert(runner != nullptr);
}

// Peers may still read the workspace.
MoeLayer::State::~State() {
  if (const auto dispatch = latest.lock()) dispatch->abandon();
}

void MoeLayer::State::fail(const Error& cause) {
  comm.abort(cause);
  if (const auto dispatch = latest.lock()) dispatch->abandon();
}

void MoeLayer::State::check_handle(const DispatchState* dispatch, Phase expected) const {
  if (dispatch == nullptr) {
    throw Error(Code::HandleReuse)
        .expected(name(expected))
        .note("this handle was used before: a call takes its handle and returns the next one");
  }
  if (dispatch->layer != this) {
    throw Error(Code::HandleUnknown)
        .at("layer", options.layer)
        .expected("a handle of this layer")
        .found("another layer's");
  }
  if (dispatch->group_epoch != comm.group().epoch()) {
    throw Error(Code::StaleHandle)
        .at("field", "group_epoch")
        .expected(comm.group().epoch())
        .found(dispatch->group_epoch);
  }
  if (dispatch->phase == expected) return;
  const Code code = dispatch->phase == Phase::released ? Code::HandleReleased
                    : dispatch->phase > expected       ? Code::HandleReuse
                                                       : Code::HandleTypeMismatch;
  throw Error(code).expected(name(expected)).found(name(dispatch->phase));
}

MoeLayer::MoeLayer(LayerOptions options, Communicator& comm, PlacementRegistry& registry,
                   const Topology& topology, ExpertSource experts,
                   std::unique_ptr<ExpertRunner> runner, ThreadPool* pool)
    : state_(std::make_unique<State>(std::move(options), comm, registry, topology,
                                     std::move(experts), std::move(runner), pool)) {}
MoeLayer::MoeLayer(MoeLayer&&) noexcept = default;
MoeLayer::~MoeLayer() = default;

StepReport MoeLayer::forward(const RoutesView& routes, const TensorView& hidden,
                             const TensorView& output, const TensorView* shared,
                             const TensorView* routed) {
  combine(collect(give_back(compute(receive(dispatch(plan(begin(routes)), hidden))))), output,
          shared, routed);
  return report();
}

const StepReport& MoeLayer::report() const { return state_->report; }

}  // namespace waybill
