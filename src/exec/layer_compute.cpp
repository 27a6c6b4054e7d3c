// compute() and combine(): rows through the experts, and back into their tokens.
#include <fmt/format.h>

#include <utility>

#include "exec/combine_rows.h"
#include "exec/layer_state.h"
#include "exec/parallel_ranges.h"
#include "exec/row_tensors.h"
#include "exec/stopwatch.h"
#include "waybill/error.h"

namespace waybill {

Computed MoeLayer::compute(Received received) {
  State& s = *state_;
  return s.guarded([&] {
    const auto dispatch = s.take(received, Phase::received);
    const Stopwatch watch(dispatch->report.time.experts);
    dispatch->experts_done =
        s.runner->run(s.runner_input(*dispatch), s.workspace, Stream::cpu_inline(), s.pool);
    if (s.full_checks()) s.note_executed(*dispatch);
    dispatch->phase = Phase::computed;
    return Computed(dispatch);
  });
}

Released MoeLayer::combine(Returned returned, const TensorView& output, const TensorView* shared,
                           const TensorView* routed) {
  State& s = *state_;
  return s.guarded([&] {
    const auto dispatch = s.take(returned, Phase::returned);
    {
      const Stopwatch watch(dispatch->report.time.combine);
      const std::int64_t tokens = dispatch->routes.tokens;
      check_rows(output, "output", tokens, s.options.hidden, {s.options.dtype, DType::f32});
      if (shared != nullptr) check_rows(*shared, "shared", tokens, s.options.hidden, {DType::f32});
      if (routed != nullptr) check_rows(*routed, "routed", tokens, s.options.hidden, {DType::f32});
      if (s.options.checks != Checks::off) s.registry.require_live(dispatch->placement);
      dispatch->lease.require(dispatch->placement);
      if (s.full_checks()) {
        check_semantic_digest(s.options.execution_scope, s.comm.rank(), dispatch->routes,
                              dispatch->semantic_digest);
        s.check_executed(*dispatch);
      }
      CombineInput input;
      input.routes = dispatch->routes;
      input.send_position = dispatch->columns.plan.send_position();
      input.sent = dispatch->sent;
      input.returned = dispatch->buffers.remote;
      input.local_rows = dispatch->buffers.output +
                         static_cast<std::size_t>(dispatch->received.remote()) * s.row_bytes();
      input.dtype = s.options.dtype;
      input.to.output = output;
      if (shared != nullptr) input.to.shared = *shared;
      if (routed != nullptr) input.to.routed = *routed;
      constexpr std::int64_t tokens_per_range = 16;
      for_each_range(s.pool, tokens, tokens_per_range, [&](std::int64_t first, std::int64_t last) {
        combine_tokens(input, first, last);
      });
    }
    s.release(*dispatch);
    return Released(dispatch);
  });
}

RunnerInput MoeLayer::State::runner_input(const DispatchState& dispatch) const {
  RunnerInput input;
  input.input = TensorView::contiguous(dispatch.buffers.input, options.dtype,
                                       {dispatch.received_payload.rows(), options.hidden});
  input.gather = dispatch.columns.gather;
  input.output = TensorView::contiguous(dispatch.buffers.output, options.dtype,
                                        {dispatch.received.rows(), options.hidden});
  input.scatter = dispatch.columns.scatter;
  input.offsets = dispatch.columns.receive.expert_offsets();
  input.experts = dispatch.experts->by_slot();
  input.activation = options.activation;
  return input;
}

// Which route each output row belongs to and which slot made it, read along the runner's own order.
void MoeLayer::State::note_executed(DispatchState& dispatch) const {
  StepColumns& columns = dispatch.columns;
  const std::span<const SlotId> slots = placement(dispatch).slots_on(comm.rank());
  const std::span<const std::int32_t> offsets = columns.receive.expert_offsets();
  columns.executed_out.resize(2 * columns.scatter.size());
  columns.executed_in.resize(2 * static_cast<std::size_t>(dispatch.sent.remote()));
  for (std::size_t q = 0; q < slots.size(); ++q) {
    for (std::int32_t row = offsets[q]; row < offsets[q + 1]; ++row) {
      const auto wire = static_cast<std::size_t>(columns.scatter[static_cast<std::size_t>(row)]);
      columns.executed_out[2 * wire] = columns.fields_in[wire * fields() + fields() - 1];
      columns.executed_out[2 * wire + 1] = slots[q].value;
    }
  }
}

// Every row that came home is the route that left in its place, and ran on that route's slot. Send
// order names each accepted route once, so each (token, slot) was executed exactly once.
void MoeLayer::State::check_executed(const DispatchState& dispatch) const {
  const StepColumns& columns = dispatch.columns;
  const HostPlan& plan = columns.plan;
  const std::int32_t* const local =
      columns.executed_out.data() + 2 * static_cast<std::size_t>(dispatch.received.remote());
  for (std::int32_t row = 0; row < dispatch.sent.rows(); ++row) {
    const std::int32_t* executed =
        dispatch.sent.is_local(row)
            ? local + 2 * dispatch.sent.local_index(row)
            : columns.executed_in.data() + 2 * static_cast<std::size_t>(dispatch.sent(row));
    const RouteId route{plan.send_order()[static_cast<std::size_t>(row)]};
    const std::int32_t slot = plan.slot()[route.index()];
    if (executed[0] == route.value && executed[1] == slot) continue;
    throw Error(Code::RoundTripMismatch)
        .at("origin_rank", comm.rank())
        .at("token", dispatch.routes.token(route))
        .at("route_slot", dispatch.routes.slot(route))
        .expected(fmt::format("route {} on slot {}", route.value, slot))
        .found(fmt::format("route {} on slot {}", executed[0], executed[1]));
  }
}

void MoeLayer::State::release(DispatchState& dispatch) {
  dispatch.lease.release_after(Event());
  dispatch.phase = Phase::released;
  StepReport::Times& time = dispatch.report.time;
  time.total = time.plan + time.agree + time.pack + time.dispatch + time.experts + time.give_back +
               time.combine;
  report = std::move(dispatch.report);
  spare = std::exchange(dispatch.columns, StepColumns{});
}

}  // namespace waybill
