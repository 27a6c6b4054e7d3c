#include "exec/c_runtime.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "exec/c_arguments.h"
#include "exec/row_tensors.h"

namespace waybill::c_api {
namespace {

// Numbers the runtimes of this process, so that a handle of one is unknown to the others.
std::uint64_t next_runtime_number() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

ExpertSource borrowed_experts(const wb_expert_weights* weights, const LayerOptions& options) {
  if (options.experts > 0 && weights == nullptr) {
    throw Error(Code::InvalidValue).at("argument", "experts").expected("a pointer").found("NULL");
  }
  std::vector<std::shared_ptr<const ExpertBundle>> bundles;
  for (std::int32_t e = 0; e < options.experts; ++e) {
    const wb_expert_weights& expert = checked(weights + e, "experts", WB_EXPERT_WEIGHTS_MAGIC);
    bundles.push_back(ExpertBundle::borrow(weights_of(expert), options.dtype));
  }
  return
      [bundles = std::move(bundles)](LayerId, ExpertId expert) { return bundles[expert.index()]; };
}

CommOptions comm_options(const wb_runtime_options& options) {
  if (options.timeout_ms < 1) {
    throw Error(Code::InvalidValue)
        .at("field", "timeout_ms")
        .expected("at least 1")
        .found(options.timeout_ms);
  }
  return {std::chrono::milliseconds(options.timeout_ms)};
}

}  // namespace

RankRuntime::RankRuntime(std::uint64_t index, std::unique_ptr<Communicator> comm,
                         const LayerOptions& options, PlacementRegistry& registry,
                         const Topology& topology, const ExpertSource& experts)
    : index_(index),
      comm_(std::move(comm)),
      options_(options),
      layer_(options, *comm_, registry, topology, experts) {}

wb_handle RankRuntime::plan(const RoutesView& routes) {
  if (!std::holds_alternative<std::monostate>(step_)) {
    throw Error(Code::PairedStateOverwritten)
        .at("index", index_)
        .at("generation", generation_)
        .expected("the step before combined or released");
  }
  step_ = layer_.plan(layer_.begin(routes));
  return {index_, ++generation_};
}

void RankRuntime::dispatch(wb_handle handle, const TensorView& hidden) {
  check(hidden, "hidden", held<Planned>(handle).plan().tokens(), {options_.dtype});
  step_ = layer_.dispatch(take<Planned>(), hidden);
}

void RankRuntime::combine(wb_handle handle, const TensorView& output, const TensorView* shared) {
  const std::int32_t tokens = held<InFlight>(handle).plan().tokens();
  check(output, "output", tokens, {options_.dtype, DType::f32});
  if (shared != nullptr) check(*shared, "shared", tokens, {DType::f32});
  Received received = layer_.receive(take<InFlight>());
  layer_.combine(layer_.collect(layer_.give_back(layer_.compute(std::move(received)))), output,
                 shared);
}

void RankRuntime::release(wb_handle handle) {
  require_live(handle);
  // Ranks that give up at this point as well still read and write one another's buffers.
  if (std::holds_alternative<InFlight>(step_)) layer_.receive(take<InFlight>());
  step_ = std::monostate{};
}

void RankRuntime::abort(std::string_view reason) {
  comm_->abort(Error(Code::PeerAborted).note(reason));
}

void RankRuntime::require_live(wb_handle handle) const {
  const bool known = handle.index == index_ && handle.generation - 1 < generation_;
  if (!known) {
    throw Error(Code::HandleUnknown)
        .at("index", handle.index)
        .at("generation", handle.generation)
        .expected(fmt::format("index {}, generation 1 to {}", index_, generation_));
  }
  if (handle.generation != generation_ || std::holds_alternative<std::monostate>(step_)) {
    throw Error(Code::HandleReleased).at("index", handle.index).at("generation", handle.generation);
  }
}

template <class Stage>
const Stage& RankRuntime::held(wb_handle handle) const {
  require_live(handle);
  if (const Stage* stage = std::get_if<Stage>(&step_)) return *stage;
  constexpr bool wants_planned = std::is_same_v<Stage, Planned>;
  throw Error(Code::HandleTypeMismatch)
      .expected(wants_planned ? "a handle that wasn't dispatched yet" : "a dispatched handle")
      .found(wants_planned ? "a dispatched one" : "one that is only planned");
}

template <class Stage>
Stage RankRuntime::take() {
  return std::get<Stage>(std::exchange(step_, std::monostate{}));
}

void RankRuntime::check(const TensorView& rows, std::string_view tensor, std::int32_t tokens,
                        std::initializer_list<DType> dtypes) const {
  check_rows(rows, tensor, tokens, options_.hidden, dtypes);
}

}  // namespace waybill::c_api

using waybill::Code;
using waybill::Error;

wb_runtime::wb_runtime(const wb_runtime_options& options, const wb_expert_weights* weights)
    : options_(waybill::c_api::layer_options_of(options)),
      group_(waybill::c_api::group_of(options), waybill::c_api::comm_options(options)) {
  const auto topology = waybill::Topology::uniform(options.ranks, options.nodes);
  waybill::Generation generation;
  const auto placement =
      std::make_shared<const waybill::Placement>(waybill::c_api::placement_of(options));
  generation.version = placement->version();
  generation.number = 1;
  generation.group = group_.group().id();
  generation.layers[options_.layer] = placement;
  registry_.load(std::move(generation));
  registry_.activate(placement->version());

  const auto experts = waybill::c_api::borrowed_experts(weights, options_);
  const std::uint64_t runtime = waybill::c_api::next_runtime_number() << 16;
  for (std::int32_t rank = 0; rank < options.ranks; ++rank) {
    ranks_.push_back(std::make_unique<waybill::c_api::RankRuntime>(
        runtime | static_cast<std::uint64_t>(rank), group_.join(waybill::Rank{rank}), options_,
        registry_, topology, experts));
  }
}

waybill::c_api::RankRuntime& wb_runtime::on(std::int32_t rank) {
  if (rank < 0 || rank >= std::ssize(ranks_)) {
    throw Error(Code::RankOutsideGroup)
        .expected(fmt::format("a rank in [0, {})", ranks_.size()))
        .found(rank);
  }
  return *ranks_[static_cast<std::size_t>(rank)];
}
