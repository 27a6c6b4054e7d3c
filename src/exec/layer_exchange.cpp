// dispatch(), receive(), give_back() and collect(): rows on their way there and back.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "exec/layer_state.h"
#include "exec/parallel_ranges.h"
#include "exec/stopwatch.h"
#include "waybill/error.h"

namespace waybill {
namespace {

constexpr std::size_t bytes_per_range = 1 << 18;  // a thread copies at least this much

std::int64_t rows_per_range(std::size_t row_bytes) {
  return static_cast<std::int64_t>(bytes_per_range / row_bytes) + 1;
}

}  // namespace

InFlight MoeLayer::dispatch(Planned planned, const TensorView& hidden) {
  State& s = *state_;
  return s.guarded([&] {
    const auto dispatch = s.take(planned, Phase::planned);
    s.check_rows(hidden, "hidden", dispatch->routes.tokens, {s.options.dtype});
    {
      const Stopwatch watch(dispatch->report.time.pack);
      s.pack(*dispatch, hidden);
      if (s.fields() > 0) s.pack_fields(*dispatch);
    }
    const Stopwatch watch(dispatch->report.time.dispatch);
    StepColumns& columns = dispatch->columns;
    const HostPlan& plan = columns.plan;
    remote_byte_offsets(plan.dedup() ? plan.payload_offsets() : plan.send_offsets(), s.comm.self(),
                        s.row_bytes(), dispatch->payload.send_offsets);
    remote_byte_offsets(columns.payload_offsets, s.comm.self(), s.row_bytes(),
                        dispatch->payload.recv_offsets);
    s.submit(dispatch->payload, "dispatch", dispatch->buffers.remote, dispatch->buffers.input);
    if (s.fields() > 0) {
      const std::size_t bytes = s.fields() * sizeof(std::int32_t);
      remote_byte_offsets(plan.send_offsets(), s.comm.self(), bytes, dispatch->fields.send_offsets);
      remote_byte_offsets(columns.receive.recv_offsets(), s.comm.self(), bytes,
                          dispatch->fields.recv_offsets);
      s.submit(dispatch->fields, "dispatch_fields", columns.fields_out.data(),
               columns.fields_in.data());
    }
    dispatch->phase = Phase::in_flight;
    return InFlight(dispatch);
  });
}

Received MoeLayer::receive(InFlight in_flight) {
  State& s = *state_;
  return s.guarded([&] {
    const auto dispatch = s.take(in_flight, Phase::in_flight);
    const Stopwatch watch(dispatch->report.time.dispatch);
    dispatch->payload.completion.wait();
    dispatch->fields.completion.wait();
    s.index_rows(*dispatch);
    dispatch->phase = Phase::received;
    return Received(dispatch);
  });
}

Combining MoeLayer::give_back(Computed computed) {
  State& s = *state_;
  return s.guarded([&] {
    const auto dispatch = s.take(computed, Phase::computed);
    {
      const Stopwatch watch(dispatch->report.time.experts);
      dispatch->experts_done.wait();
    }
    const Stopwatch watch(dispatch->report.time.give_back);
    StepColumns& columns = dispatch->columns;
    remote_byte_offsets(columns.receive.recv_offsets(), s.comm.self(), s.row_bytes(),
                        dispatch->results.send_offsets);
    remote_byte_offsets(columns.plan.send_offsets(), s.comm.self(), s.row_bytes(),
                        dispatch->results.recv_offsets);
    s.submit(dispatch->results, "return", dispatch->buffers.output, dispatch->buffers.remote);
    if (s.full_checks()) {
      remote_byte_offsets(columns.receive.recv_offsets(), s.comm.self(), 2 * sizeof(std::int32_t),
                          dispatch->executed.send_offsets);
      remote_byte_offsets(columns.plan.send_offsets(), s.comm.self(), 2 * sizeof(std::int32_t),
                          dispatch->executed.recv_offsets);
      s.submit(dispatch->executed, "return_fields", columns.executed_out.data(),
               columns.executed_in.data());
    }
    dispatch->phase = Phase::combining;
    return Combining(dispatch);
  });
}

Returned MoeLayer::collect(Combining combining) {
  State& s = *state_;
  return s.guarded([&] {
    const auto dispatch = s.take(combining, Phase::combining);
    const Stopwatch watch(dispatch->report.time.give_back);
    dispatch->results.completion.wait();
    dispatch->executed.completion.wait();
    dispatch->phase = Phase::returned;
    return Returned(dispatch);
  });
}

void MoeLayer::State::check_rows(const TensorView& rows, std::string_view tensor,
                                 std::int64_t tokens, std::initializer_list<DType> dtypes) const {
  if (rows.device.kind != DeviceKind::cpu) {
    throw Error(Code::DeviceUnavailable)
        .at("tensor", tensor)
        .expected("cpu")
        .found(waybill::name(rows.device));
  }
  if (std::ranges::find(dtypes, rows.dtype) == dtypes.end()) {
    throw Error(Code::DtypeMismatch)
        .at("tensor", tensor)
        .expected(*dtypes.begin())
        .found(rows.dtype);
  }
  if (rows.rank != 2 || rows.shape[0] != tokens || rows.shape[1] != options.hidden ||
      (rows.strides[1] != 1 && options.hidden > 1)) {
    throw Error(Code::ShapeMismatch)
        .at("tensor", tensor)
        .expected(
            fmt::format("[{}, {}] with the elements of a row adjacent", tokens, options.hidden))
        .found(shape_text(rows));
  }
}

// Local rows go straight to where they are received.
void MoeLayer::State::pack(DispatchState& dispatch, const TensorView& hidden) const {
  const HostPlan& plan = dispatch.columns.plan;
  const WireOrder& out = dispatch.sent_payload;
  const std::size_t bytes = row_bytes();
  const std::size_t stride = static_cast<std::size_t>(hidden.strides[0]) * size_of(options.dtype);
  const auto* rows = static_cast<const std::byte*>(hidden.data);
  std::byte* const local =
      dispatch.buffers.input + static_cast<std::size_t>(dispatch.received_payload.remote()) * bytes;
  for_each_range(
      pool, out.rows(), rows_per_range(bytes), [&](std::int64_t first, std::int64_t last) {
        for (auto row = static_cast<std::int32_t>(first); row < last; ++row) {
          const std::int32_t token =
              plan.dedup() ? plan.payload_token()[row] : plan.send_order()[row] / options.topk;
          std::byte* to = out.is_local(row) ? local + out.local_index(row) * bytes
                                            : dispatch.buffers.remote +
                                                  static_cast<std::size_t>(out(row)) * bytes;
          std::memcpy(to, rows + static_cast<std::size_t>(token) * stride, bytes);
        }
      });
}

void MoeLayer::State::pack_fields(DispatchState& dispatch) const {
  StepColumns& columns = dispatch.columns;
  const HostPlan& plan = columns.plan;
  const WireOrder& out = dispatch.sent;
  columns.fields_out.resize(static_cast<std::size_t>(out.remote()) * fields());
  columns.fields_in.resize(static_cast<std::size_t>(dispatch.received.rows()) * fields());
  std::int32_t* const local =
      columns.fields_in.data() + static_cast<std::size_t>(dispatch.received.remote()) * fields();
  for (std::int32_t row = 0; row < out.rows(); ++row) {
    std::int32_t* to = out.is_local(row) ? local + out.local_index(row) * fields()
                                         : columns.fields_out.data() +
                                               static_cast<std::size_t>(out(row)) * fields();
    if (options.dedup) *to++ = plan.payload_row()[row];
    if (full_checks()) *to = plan.send_order()[row];
  }
}

void MoeLayer::State::submit(RowExchange& exchange, std::string_view phase, const void* send,
                             void* recv) {
  exchange.completion =
      comm.all_to_all_v({phase, static_cast<const std::byte*>(send), exchange.send_offsets,
                         static_cast<std::byte*>(recv), exchange.recv_offsets});
}

// From receive rows to the runner's indices: no row is moved again.
void MoeLayer::State::index_rows(DispatchState& dispatch) const {
  StepColumns& columns = dispatch.columns;
  const ReceivePlan& receive = columns.receive;
  columns.gather.resize(static_cast<std::size_t>(receive.rows()));
  columns.scatter.resize(static_cast<std::size_t>(receive.rows()));
  for (std::size_t p = 0; p < receive.recv_counts().size(); ++p) {
    const std::int32_t first = receive.recv_offsets()[p];
    const std::int32_t payload_rows = columns.payload_offsets[p + 1] - columns.payload_offsets[p];
    for (std::int32_t row = first; row < receive.recv_offsets()[p + 1]; ++row) {
      const std::int32_t wire = dispatch.received(row);
      const std::int32_t payload =
          options.dedup ? columns.fields_in[static_cast<std::size_t>(wire) * fields()]
                        : row - first;
      if (payload < 0 || payload >= payload_rows) {
        throw Error(Code::PeerCountDisagreement)
            .at("rank", comm.group().rank_of(PeerSlot{static_cast<std::int32_t>(p)}))
            .at("field", "payload_row")
            .expected(fmt::format("in [0, {})", payload_rows))
            .found(payload);
      }
      const auto expert_row = static_cast<std::size_t>(receive.expert_position()[row]);
      columns.gather[expert_row] = dispatch.received_payload(columns.payload_offsets[p] + payload);
      columns.scatter[expert_row] = wire;
    }
  }
}

}  // namespace waybill
