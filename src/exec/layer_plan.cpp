// prepare(), begin() and plan(): what a step loads and pins, what ranks agree on, and who sends how
// much to whom.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "exec/layer_state.h"
#include "exec/stopwatch.h"
#include "waybill/error.h"
#include "waybill/plan.h"
#include "waybill/selection.h"

namespace waybill {
namespace {

// A count message: the sender's routes in all, its payload rows for the receiver, then its rows for
// each of the receiver's slots.
constexpr std::size_t count_header = 2;

LiveBytes column_bytes(const HostPlan& plan) {
  std::size_t entries = 0;
  for (const std::span<const std::int32_t> column :
       {plan.slot(), plan.send_position(), plan.send_order(), plan.key_offsets(), plan.key_slot(),
        plan.send_offsets(), plan.expert_counts(), plan.payload_offsets(), plan.payload_token(),
        plan.payload_row()}) {
    entries += column.size();
  }
  return LiveBytes{static_cast<std::int64_t>(entries * sizeof(std::int32_t))};
}

// What a rank loads takes as long as it takes.
class DeadlinePause {
 public:
  explicit DeadlinePause(Communicator& comm) : comm_(comm) { comm_.pause_deadline(); }
  DeadlinePause(const DeadlinePause&) = delete;
  DeadlinePause& operator=(const DeadlinePause&) = delete;
  ~DeadlinePause() { comm_.resume_deadline(); }

 private:
  Communicator& comm_;
};

}  // namespace

void MoeLayer::prepare() {
  state_->guarded([&] { state_->prepare(); });
}

Routed MoeLayer::begin(const RoutesView& routes) {
  return state_->guarded([&] {
    const std::shared_ptr<DispatchState> dispatch = state_->pin(routes);
    state_->latest = dispatch;
    return Routed(dispatch);
  });
}

Planned MoeLayer::plan(Routed routed) {
  State& s = *state_;
  return s.guarded([&] {
    const auto dispatch = s.take(routed, Phase::routed);
    AdmittedRoutes admitted;
    const std::vector<AgreementRecord> records = s.agree_on(*dispatch, admitted);
    s.build(*dispatch, admitted);
    s.exchange_counts(*dispatch, records);
    s.lay_out(*dispatch);
    dispatch->phase = Phase::planned;
    return Planned(dispatch);
  });
}

void MoeLayer::State::prepare() {
  const Lease lease = registry.acquire();
  AgreementRecord mine;
  mine.facts = facts_of(lease.generation());
  try {
    check_generation(lease.generation());
    load(lease.generation());
  } catch (const Error& error) {
    mine.set_fault(error);
  }
  agree(comm, "prepare", mine);
}

const AgreedFacts& MoeLayer::State::facts_of(const Generation& generation) {
  if (!facts || facts_placement != generation.version) {
    facts.emplace(options, comm.group(), generation, topology);
    facts_placement = generation.version;
  }
  return *facts;
}

std::shared_ptr<const ResidentExperts> MoeLayer::State::load(const Generation& generation) {
  if (auto loaded = experts.find(generation.version)) return loaded;
  const DeadlinePause pause(comm);
  const Stopwatch watch(loading);
  return experts.load(generation, comm.rank(), options, expert_source);
}

std::shared_ptr<DispatchState> MoeLayer::State::pin(const RoutesView& routes) {
  if (const auto previous = latest.lock(); previous && previous->phase != Phase::released) {
    throw Error(Code::PairedStateOverwritten)
        .at("layer", options.layer)
        .expected("the step before combined, or its handle dropped")
        .found(name(previous->phase));
  }
  experts.drop_retired(registry);
  auto dispatch = std::make_shared<DispatchState>();
  dispatch->layer = this;
  dispatch->comm = &comm;
  dispatch->lease = registry.acquire();
  const Generation& generation = dispatch->lease.generation();
  dispatch->placement = generation.version;
  dispatch->group_epoch = comm.group().epoch();
  dispatch->routes = routes;
  dispatch->columns = std::exchange(spare, StepColumns{});
  try {
    check_shape(routes, options.topk);
    if (options.bad_ids == BadIdPolicy::drop) {
      dispatch->bad_ids =
          drop_bad_ids(dispatch->routes, options.experts, dispatch->columns.admitted_ids);
    }
    if (full_checks()) {
      dispatch->semantic_digest =
          semantic_digest(options.execution_scope, comm.rank(), dispatch->routes);
    }
  } catch (const Error& error) {
    dispatch->routes_fault = error;
  }
  facts_of(generation);
  return dispatch;
}

const Placement& MoeLayer::State::placement(const DispatchState& dispatch) const {
  return dispatch.lease.generation().layer(options.layer);
}

void MoeLayer::State::check_generation(const Generation& generation) {
  if (checked_placement == generation.version) return;
  if (generation.group != ProcessGroupId() && generation.group != comm.group().id()) {
    throw Error(Code::ProcessGroupMismatch)
        .at("placement", generation.version)
        .expected(generation.group)
        .found(comm.group().id());
  }
  const Placement& slots = generation.layer(options.layer);
  if (slots.experts() != options.experts) {
    throw Error(Code::LogicalCountMismatch)
        .at("placement", generation.version)
        .at("layer", options.layer)
        .expected(options.experts)
        .found(slots.experts());
  }
  if (comm.rank().value >= slots.ranks()) {
    throw Error(Code::RankOutsideGroup)
        .at("placement", generation.version)
        .expected(fmt::format("a rank below {}", slots.ranks()))
        .found(comm.rank());
  }
  for (std::int32_t q = 0; q < slots.slots(); ++q) {
    const SlotId slot{q};
    check_compatible(slots.expert_of(slot), generation.checkpoint, slot, slots, comm.group(),
                     topology);
  }
  checked_placement = generation.version;
}

// What goes wrong on this rank alone travels in the record, so that all ranks fail alike.
std::vector<AgreementRecord> MoeLayer::State::agree_on(DispatchState& dispatch,
                                                       AdmittedRoutes& admitted) {
  AgreementRecord mine;
  mine.facts = facts_of(dispatch.lease.generation());
  mine.tokens = dispatch.routes.tokens;
  try {
    {
      const Stopwatch watch(dispatch.report.time.plan);
      check_generation(dispatch.lease.generation());
      if (dispatch.routes_fault) throw Error(*dispatch.routes_fault);
      admitted = admit(dispatch.routes, options.experts);
      admitted.admission.out_of_range = dispatch.bad_ids;
      mine.accepted = admitted.admission.accepted;
    }
    dispatch.experts = load(dispatch.lease.generation());
    dispatch.report.time.load = std::exchange(loading, Nanoseconds{});
  } catch (const Error& error) {
    mine.set_fault(error);
  }
  const Stopwatch watch(dispatch.report.time.agree);
  return agree(comm, "agreement", mine);
}

// [1, E], or [P, E] in rank order where the policy reads every rank's counts.
std::vector<std::int64_t> MoeLayer::State::selection_counts(const DispatchState& dispatch,
                                                            std::vector<std::int64_t> mine) {
  if (!needs_global_counts(options.selector)) return mine;
  const std::size_t row = mine.size();
  std::vector<std::int64_t> by_peer(row * static_cast<std::size_t>(comm.size()));
  comm.all_gather("expert_counts", std::as_bytes(std::span(mine)),
                  std::as_writable_bytes(std::span(by_peer)));
  std::vector<std::int64_t> by_rank(row * static_cast<std::size_t>(placement(dispatch).ranks()));
  for (const PeerSlot peer : comm.group().by_rank()) {
    const std::size_t rank = comm.group().rank_of(peer).index();
    std::copy_n(by_peer.begin() + static_cast<std::ptrdiff_t>(peer.index() * row), row,
                by_rank.begin() + static_cast<std::ptrdiff_t>(rank * row));
  }
  return by_rank;
}

void MoeLayer::State::build(DispatchState& dispatch, const AdmittedRoutes& admitted) {
  std::vector<std::int64_t> counts;
  {
    const Stopwatch watch(dispatch.report.time.agree);
    counts = selection_counts(dispatch, admitted.expert_counts);
  }
  const Stopwatch watch(dispatch.report.time.plan);
  const Placement& slots = placement(dispatch);
  const SelectionTable table = select(options.selector, slots, topology, comm.rank(), counts);
  HostPlan& plan = dispatch.columns.plan;
  PlanOptions plan_options;
  plan_options.dedup = options.dedup;
  plan_options.pool = pool;
  rebuild_plan(plan, dispatch.routes, table, slots, comm.group(), comm.rank(), plan_options);
  if (options.checks != Checks::off && plan.rows() != admitted.admission.accepted) {
    throw Error(Code::RouteConservationMismatch)
        .at("rank", comm.rank())
        .expected(admitted.admission.accepted)
        .found(plan.rows());
  }
  if (full_checks()) check_plan(plan, dispatch.routes, slots, comm.group());

  dispatch.sent = WireOrder(plan.send_offsets(), comm.self());
  dispatch.sent_payload = WireOrder(payload_offsets(plan), comm.self());
  StepReport& report_of_step = dispatch.report;
  report_of_step.placement = dispatch.placement;
  report_of_step.tokens = dispatch.routes.tokens;
  report_of_step.admission = admitted.admission;
  report_of_step.handle = column_bytes(plan);
  RankRows rows = rank_rows(plan);
  report_of_step.sent = std::move(rows.sent);
  report_of_step.payload_sent = std::move(rows.payload);
}

void MoeLayer::State::exchange_counts(DispatchState& dispatch,
                                      const std::vector<AgreementRecord>& records) {
  StepColumns& columns = dispatch.columns;
  const HostPlan& plan = columns.plan;
  const std::size_t local_slots = dispatch.experts->by_slot().size();
  std::vector<std::int64_t> send_offsets{0}, recv_offsets{0};
  columns.counts_out.clear();
  for (std::int32_t p = 0; p < comm.size(); ++p) {
    const PeerSlot peer{p};
    columns.counts_out.push_back(plan.rows());
    columns.counts_out.push_back(plan.payload_count(peer));
    const std::span<const std::int32_t> counts = plan.slot_counts(peer);
    columns.counts_out.insert(columns.counts_out.end(), counts.begin(), counts.end());
    send_offsets.push_back(
        static_cast<std::int64_t>(columns.counts_out.size() * sizeof(std::int32_t)));
    recv_offsets.push_back(
        recv_offsets.back() +
        static_cast<std::int64_t>((count_header + local_slots) * sizeof(std::int32_t)));
  }
  columns.counts_in.resize((count_header + local_slots) * static_cast<std::size_t>(comm.size()));
  {
    const Stopwatch watch(dispatch.report.time.agree);
    comm.all_to_all_v({"counts", reinterpret_cast<const std::byte*>(columns.counts_out.data()),
                       send_offsets, reinterpret_cast<std::byte*>(columns.counts_in.data()),
                       recv_offsets})
        .wait();
  }
  const Stopwatch watch(dispatch.report.time.plan);
  read_counts(dispatch, records);
}

void MoeLayer::State::read_counts(DispatchState& dispatch,
                                  const std::vector<AgreementRecord>& records) {
  StepColumns& columns = dispatch.columns;
  const auto local_slots = static_cast<std::int32_t>(dispatch.experts->by_slot().size());
  const std::size_t message = count_header + static_cast<std::size_t>(local_slots);
  columns.peer_counts.clear();
  for (std::size_t p = 0; p < records.size(); ++p) {
    const auto counts = std::span(columns.counts_in).subspan(p * message, message);
    columns.peer_counts.insert(columns.peer_counts.end(), counts.begin() + count_header,
                               counts.end());
  }
  rebuild_receive_plan(columns.receive, columns.peer_counts, local_slots, comm.group());
  if (full_checks()) {
    check_receive_plan(columns.receive.view(), columns.peer_counts, local_slots, comm.group());
  }

  columns.payload_offsets.assign(1, 0);
  for (std::size_t p = 0; p < records.size(); ++p) {
    const Rank rank = comm.group().rank_of(PeerSlot{static_cast<std::int32_t>(p)});
    const std::int32_t planned = columns.counts_in[p * message];
    const std::int32_t payload = columns.counts_in[p * message + 1];
    const std::int32_t rows = columns.receive.recv_counts()[p];
    if (options.checks != Checks::off && planned != records[p].accepted) {
      throw Error(Code::RouteConservationMismatch)
          .at("rank", rank)
          .expected(records[p].accepted)
          .found(planned);
    }
    const bool possible = options.dedup
                              ? payload >= 0 && payload <= rows && (payload > 0) == (rows > 0)
                              : payload == rows;
    if (!possible) {
      throw Error(Code::PeerCountDisagreement)
          .at("rank", rank)
          .at("field", "payload_rows")
          .expected(fmt::format("{}{} for as many route rows", options.dedup ? "1 to " : "", rows))
          .found(payload);
    }
    columns.payload_offsets.push_back(columns.payload_offsets.back() + payload);
  }
  dispatch.received = WireOrder(columns.receive.recv_offsets(), comm.self());
  dispatch.received_payload = WireOrder(columns.payload_offsets, comm.self());
  dispatch.report.received = Rows{columns.receive.rows()};
  const std::span<const std::int32_t> offsets = columns.receive.expert_offsets();
  for (std::int32_t q = 0; q < local_slots; ++q) {
    dispatch.report.slot_rows.emplace_back(offsets[q + 1] - offsets[q]);
  }
}

// Sizes are known on the host here, so that no later phase allocates rows.
void MoeLayer::State::lay_out(DispatchState& dispatch) {
  const auto bytes = [&](std::int32_t rows) {
    return static_cast<std::size_t>(rows) * row_bytes();
  };
  const std::size_t remote =
      bytes(std::max(dispatch.sent.remote(), dispatch.sent_payload.remote()));
  const std::size_t input = bytes(dispatch.received_payload.rows());
  const std::size_t output = bytes(dispatch.received.rows());
  RunnerInput shapes = runner_input(dispatch);
  shapes.input.shape[0] = shapes.output.shape[0];  // without gather, every expert row is a row
  shapes.gather = shapes.scatter = {};
  workspace.reserve(Workspace::padded(remote) + Workspace::padded(input) +
                    Workspace::padded(output) + runner->workspace_bytes(shapes));
  const auto take = [&](std::size_t size) { return static_cast<std::byte*>(workspace.take(size)); };
  dispatch.buffers = {take(remote), take(input), take(output)};
  dispatch.report.workspace = LiveBytes{static_cast<std::int64_t>(workspace.capacity())};
}

}  // namespace waybill
