// One layer object's parts, and the steps that its public calls are made of.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "exec/agreement.h"
#include "exec/dispatch_state.h"
#include "exec/resident_experts.h"
#include "exec/route_admission.h"
#include "waybill/layer.h"

namespace waybill {

struct MoeLayer::State {
  State(LayerOptions layer_options, Communicator& communicator, PlacementRegistry& placements,
        Topology ranks, ExpertSource source, std::unique_ptr<ExpertRunner> expert_runner,
        ThreadPool* threads);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  const LayerOptions options;
  Communicator& comm;
  PlacementRegistry& registry;
  const Topology topology;
  const ExpertSource expert_source;
  const std::unique_ptr<ExpertRunner> runner;
  ThreadPool* const pool;

  Workspace workspace;
  ResidentExpertsCache experts;
  std::optional<AgreedFacts> facts;  // of facts_placement
  PlacementVersion facts_placement;
  PlacementVersion checked_placement;  // the last that check_generation() let pass
  Nanoseconds loading;                 // of weights, until a step reports it
  StepColumns spare;
  std::weak_ptr<DispatchState> latest;
  StepReport report;

  // Runs a public call; an exception aborts the group and gives up the step.
  template <class Body>
  auto guarded(Body&& body) -> decltype(body()) {
    try {
      return std::forward<Body>(body)();
    } catch (const Error& error) {
      fail(error);
      throw;
    } catch (const std::bad_alloc&) {
      fail(no_memory);
      throw;
    } catch (const std::exception& error) {
      fail(Error(Code::PeerAborted).note(error.what()));
      throw;
    } catch (...) {
      fail(Error(Code::PeerAborted).note("an exception of unknown type"));
      throw;
    }
  }
  const Error no_memory{Code::MemoryExhausted};  // made before memory is short
  void fail(const Error& cause);

  // The state of a handle that this call may use now: HandleReuse (moved from, or used before),
  // HandleReleased, HandleUnknown (another layer's), HandleTypeMismatch, StaleHandle.
  template <class Stage>
  std::shared_ptr<DispatchState> take(const Handle<Stage>& handle, Phase expected) const {
    check_handle(handle.state().get(), expected);
    return handle.state();
  }
  void check_handle(const DispatchState* dispatch, Phase expected) const;

  const Placement& placement(const DispatchState& dispatch) const;
  std::size_t row_bytes() const {
    return static_cast<std::size_t>(options.hidden) * size_of(options.dtype);
  }
  bool full_checks() const { return options.checks == Checks::full; }
  // int32 fields beside each dispatched row: payload row under dedup, route under full checks.
  std::size_t fields() const { return (options.dedup ? 1U : 0U) + (full_checks() ? 1U : 0U); }

  // prepare, begin, plan
  void prepare();
  const AgreedFacts& facts_of(const Generation& generation);
  std::shared_ptr<const ResidentExperts> load(const Generation& generation);
  std::shared_ptr<DispatchState> pin(const RoutesView& routes);
  std::vector<AgreementRecord> agree_on(DispatchState& dispatch, AdmittedRoutes& admitted);
  // What holds of a generation for as long as it serves.
  void check_generation(const Generation& generation);
  std::vector<std::int64_t> selection_counts(const DispatchState& dispatch,
                                             std::vector<std::int64_t> mine);
  void build(DispatchState& dispatch, const AdmittedRoutes& admitted);
  void exchange_counts(DispatchState& dispatch, const std::vector<AgreementRecord>& records);
  void read_counts(DispatchState& dispatch, const std::vector<AgreementRecord>& records);
  void lay_out(DispatchState& dispatch);

  // dispatch, receive
  void pack(DispatchState& dispatch, const TensorView& hidden) const;
  void pack_fields(DispatchState& dispatch) const;
  // Rows of `bytes` each, own rows left out.
  void submit(RowExchange& exchange, std::string_view phase, std::size_t bytes,
              const PeerRows& send, const PeerRows& recv);
  void check_received(DispatchState& dispatch) const;
  void index_rows(DispatchState& dispatch) const;

  // compute, give_back, combine
  RunnerInput runner_input(const DispatchState& dispatch) const;
  void note_executed(DispatchState& dispatch) const;
  void check_executed(const DispatchState& dispatch) const;
  void release(DispatchState& dispatch);
};

}  // namespace waybill
