// One MoE layer of one rank: routes in, combined rows out. The steps are move-only states of one
// dispatch, so that a step can't be skipped, repeated or paired with another dispatch's state:
// Routed → Planned → InFlight → Received → Computed → Combining → Returned → Released.
// Source: reference text 0x01D2, 0x02B3, 0x03C3; docs/arithmetic.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/comm.h"
#include "waybill/expert.h"
#include "waybill/ledger.h"
#include "waybill/plan.h"
#include "waybill/registry.h"
#include "waybill/routes.h"
#include "waybill/selection.h"
#include "waybill/topology.h"

namespace waybill {

enum class Checks : std::uint8_t {
  off,
  counts,  // conservation and status
  full,    // semantic digest, plan contracts, each (token, slot) executed exactly once
};

struct LayerOptions {
  LayerId layer;
  std::int32_t hidden = 0;
  std::int32_t experts = 0;
  std::int32_t topk = 0;
  DType dtype = DType::f32;  // activations, weights' execution and return dtype: f32 or bf16
  Activation activation;
  Selector selector = Selector::first;
  bool dedup = false;  // one payload row per (token, destination rank)
  Checks checks = Checks::counts;
  BadIdPolicy bad_ids = BadIdPolicy::error;  // of this rank's routes
  std::string execution_scope = "scope-0";
};

// The expert of (layer, logical id), in the layer's execution dtype. Called for the experts of this
// rank's slots when a generation is first used; thread-safe.
using ExpertSource = std::function<std::shared_ptr<const ExpertBundle>(LayerId, ExpertId)>;

// What one forward step of this rank did.
struct StepReport {
  PlacementVersion placement;
  std::int64_t tokens = 0;
  Admission admission;
  std::vector<Rows> sent;          // [P] route rows per peer
  Rows received;                   // route rows executed here
  std::vector<Rows> payload_sent;  // [P] dispatch rows per peer; equals `sent` without dedup
  std::vector<Rows> slot_rows;     // [Q_local]
  LiveBytes workspace;             // this rank's reservation
  LiveBytes handle;                // plan columns held by the handle
  struct Times {
    Nanoseconds plan, agree, pack, dispatch, experts, give_back, combine, total;
  } time;
};

struct DispatchState;  // what a handle carries; private to exec/

template <class Stage>
class Handle {
 public:
  Handle(Handle&&) noexcept = default;
  Handle& operator=(Handle&&) noexcept = default;

  const PlacementVersion& placement() const;
  GroupEpoch group_epoch() const;
  const HostPlan& plan() const;  // empty before Planned

  explicit Handle(std::shared_ptr<DispatchState> state) : state_(std::move(state)) {}
  const std::shared_ptr<DispatchState>& state() const { return state_; }

 private:
  std::shared_ptr<DispatchState> state_;
};

using Routed = Handle<struct RoutedStage>;
using Planned = Handle<struct PlannedStage>;
using InFlight = Handle<struct InFlightStage>;
using Received = Handle<struct ReceivedStage>;
using Computed = Handle<struct ComputedStage>;
using Combining = Handle<struct CombiningStage>;
using Returned = Handle<struct ReturnedStage>;
using Released = Handle<struct ReleasedStage>;

// Not thread-safe: one layer object per rank and stream of steps. All peers make the same calls in
// the same order. Any exception aborts the group, so that no peer waits for this rank. Once it has
// seen its largest batch, a step allocates nothing that grows with tokens: a few kilobytes that
// describe peers, experts and slots.
//
// A call takes its handle and returns the next one. A handle that was moved from or whose stage is
// past is HandleReuse, after the combine HandleReleased, before its stage HandleTypeMismatch, of
// another layer HandleUnknown, of another membership epoch StaleHandle. Dropping a handle gives its
// step up and releases its generation.
class MoeLayer {
 public:
  // `comm`, `registry`, `topology` and `pool` are borrowed and must outlive the layer. A pool
  // serves one loop at a time, so ranks that are threads don't share one. InvalidValue or
  // DtypeMismatch for options that name no layer.
  MoeLayer(LayerOptions options, Communicator& comm, PlacementRegistry& registry,
           const Topology& topology, ExpertSource experts,
           std::unique_ptr<ExpertRunner> runner = make_grouped_runner(),
           ThreadPool* pool = nullptr);
  MoeLayer(MoeLayer&&) noexcept;
  ~MoeLayer();

  // Pins the active generation and the routes. The routes' memory must live until Released.
  // PairedStateOverwritten while an earlier step of this layer is under way.
  Routed begin(const RoutesView& routes);
  // Agrees with all peers on generation, group epoch, shape, options and instruction set, selects
  // replicas, plans, and exchanges counts, before any payload moves. A disagreement is the same
  // error on every rank, with the field, both ranks and both values (AgreementMismatch,
  // GenerationMismatch, CheckpointMismatch, ProcessGroupMismatch, CollectiveEpochMismatch); so are
  // one rank's bad routes (ExpertIdOutOfRange, GateNotFinite, RouteCountMismatch, InvalidValue) and
  // experts that don't fit, with the rank. PeerCountDisagreement or RouteConservationMismatch for
  // counts that can't be.
  Planned plan(Routed routed);
  // Packs and submits the dispatch. `hidden`: [T_l, d] in the layer's dtype, readable until
  // received. ShapeMismatch, DtypeMismatch, DeviceUnavailable for rows that don't fit.
  InFlight dispatch(Planned planned, const TensorView& hidden);
  // Blocks until every peer's rows are here: PeerTimeout, PeerAborted.
  Received receive(InFlight in_flight);
  // Runs the experts of this rank's slots on the received rows; the runner's errors.
  Computed compute(Received received);
  // Waits for the experts and submits the way back of their rows.
  Combining give_back(Computed computed);
  // Blocks until this rank's rows have come home: PeerTimeout, PeerAborted.
  Returned collect(Combining combining);
  // y[t] = Σ_j gate[t, j] * z[t, j], in route-slot order in FP32, then `shared` [T_l, d] FP32 last
  // when given; rounded once to `output` [T_l, d] (the layer's dtype or f32). `routed` [T_l, d]
  // FP32 receives the sum before `shared`, when given. A token without accepted routes is exactly 0
  // (plus shared). ShapeMismatch, DtypeMismatch; GenerationNotLive when the pinned generation is
  // gone; under `full`, SemanticDigestMismatch for routes that were edited and RoundTripMismatch
  // for a row that isn't the one that left.
  Released combine(Returned returned, const TensorView& output, const TensorView* shared = nullptr,
                   const TensorView* routed = nullptr);

  // All of the above.
  StepReport forward(const RoutesView& routes, const TensorView& hidden, const TensorView& output,
                     const TensorView* shared = nullptr, const TensorView* routed = nullptr);
  // Of the last completed step.
  const StepReport& report() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace waybill
