// dispatch(), receive(), give_back() and collect(): rows on their way there and back.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "exec/layer_state.h"
#include "exec/parallel_ranges.h"
#include "exec/row_tensors.h"
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
    check_rows(hidden, "hidden", dispatch->routes.tokens, s.options.hidden, {s.options.dtype});
    {
      const Stopwatch watch(dispatch->report.time.pack);
      s.pack(*dispatch, hidden);
      if (s.fields() > 0) s.pack_fields(*dispatch);
    }
    const Stopwatch watch(dispatch->report.time.dispatch);
    StepColumns& columns = dispatch->columns;
    s.submit(dispatch->payload, "dispatch", s.row_bytes(),
             {payload_offsets(columns.plan), dispatch->buffers.remote},
             {columns.payload_offsets, dispatch->buffers.input});
    if (s.fields() > 0) {
      s.submit(dispatch->fields, "dispatch_fields", s.fields() * sizeof(std::int32_t),
               {columns.plan.send_offsets(), columns.fields_out.data()},
               {columns.receive.recv_offsets(), columns.fields_in.data()});
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
    if (s.full_checks()) s.check_received(*dispatch);
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
    const auto received = columns.receive.recv_offsets(), sent = columns.plan.send_offsets();
    s.submit(dispatch->results, "return", s.row_bytes(), {received, dispatch->buffers.output},
             {sent, dispatch->buffers.remote});
    if (s.full_checks()) {
      s.submit(dispatch->executed, "return_fields", 2 * sizeof(std::int32_t),
               {received, columns.executed_out.data()}, {sent, columns.executed_in.data()});
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

void MoeLayer::State::submit(RowExchange& exchange, std::string_view phase, std::size_t bytes,
                             const PeerRows& send, const PeerRows& recv) {
  remote_byte_offsets(send.offsets, comm.self(), bytes, exchange.send_offsets);
  remote_byte_offsets(recv.offsets, comm.self(), bytes, exchange.recv_offsets);
  exchange.completion =
      comm.all_to_all_v({phase, static_cast<const std::byte*>(send.rows), exchange.send_offsets,
                         static_cast<std::byte*>(recv.rows), exchange.recv_offsets});
}

// Every row that arrived is another row of its origin.
void MoeLayer::State::check_received(DispatchState& dispatch) const {
  StepColumns& columns = dispatch.columns;
  const std::span<const std::int32_t> offsets = columns.receive.recv_offsets();
  std::vector<RouteIdentity>& rows = columns.identities;
  rows.clear();
  rows.reserve(static_cast<std::size_t>(columns.receive.rows()));
  for (const PeerSlot peer : comm.group().by_rank()) {
    const Rank origin = comm.group().rank_of(peer);
    for (std::int32_t row = offsets[peer.index()]; row < offsets[peer.index() + 1]; ++row) {
      const auto wire = static_cast<std::size_t>(dispatch.received(row));
      const std::int32_t route = columns.fields_in[wire * fields() + fields() - 1];
      rows.push_back({origin, TokenRow{route / options.topk}, RouteSlot{route % options.topk}});
    }
  }
  check_route_identities(rows, columns.identities_order);
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
