// The dispatch plan of one rank: routes + selection → slots, send order, splits and the way back.
// Rows are sorted stably by (peer slot, local slot, route position); the inverse leads home.
// Source: reference text 0x03B, 0x03C1–0x03C3, 0x01C.
#pragma once

#include <cstdint>
#include <span>

#include "waybill/column.h"
#include "waybill/placement.h"
#include "waybill/routes.h"
#include "waybill/selection.h"
#include "waybill/topology.h"

namespace waybill {

class ThreadPool;

// Raw columns of a plan in one memory space, host or device. All counts are rows, all offsets are
// exclusive prefix sums with a final sentinel. "Send key" is a slot's position in send order: slots
// sorted by (peer slot of their rank, local index).
struct PlanView {
  std::int32_t tokens;   // T_l
  std::int32_t topk;     // k
  std::int32_t experts;  // E
  std::int32_t slots;    // Q
  std::int32_t peers;    // P
  std::int32_t rows;     // accepted routes; on a device an upper bound (T_l * k)

  const std::int32_t* slot;           // [T_l*k] physical slot of each route, -1: dropped
  const std::int32_t* send_position;  // [T_l*k] row of each route in send order, -1: dropped
  const std::int32_t* send_order;     // [rows] route at each send row
  const std::int32_t* key_offsets;    // [Q+1] first send row of each send key
  const std::int32_t* key_slot;       // [Q] physical slot of each send key
  const std::int32_t* send_offsets;   // [P+1] first send row of each peer
  const std::int32_t* expert_counts;  // [E] accepted routes of each logical expert
  const std::uint32_t* status;        // [1] 0, or the bits of PlanStatus

  // One payload row per (token, destination rank) instead of one per route; null without dedup.
  const std::int32_t* payload_offsets;  // [P+1] first payload row of each peer
  const std::int32_t* payload_token;    // [payload rows] origin token of each payload row
  const std::int32_t* payload_row;      // [rows] payload row of each send row, relative to its
                                        //        peer's first
};

// Bits a device plan sets instead of throwing.
enum class PlanStatus : std::uint32_t {
  ok = 0,
  expert_id_out_of_range = 1,  // counted as dropped
  no_replica = 2,  // a route's expert has no candidate or no quota left: no slot, no row
};

struct PlanOptions {
  bool dedup = false;          // one payload row per (token, destination rank)
  ThreadPool* pool = nullptr;  // null: the calling thread only. The plan's bits don't depend on it.
  std::int32_t routes_per_thread = 1 << 15;  // fewer aren't worth waking a thread for
};

// A plan in host memory. Value type: copies and moves own their columns.
class HostPlan {
 public:
  // Pointers into this plan: valid until it is moved, rebuilt or destroyed.
  PlanView view() const;

  std::int32_t tokens() const { return tokens_; }
  std::int32_t topk() const { return topk_; }
  std::int32_t peers() const { return peers_; }
  std::int32_t rows() const { return static_cast<std::int32_t>(send_order_.size()); }
  std::span<const std::int32_t> slot() const { return slot_; }
  std::span<const std::int32_t> send_position() const { return send_position_; }
  std::span<const std::int32_t> send_order() const { return send_order_; }
  std::span<const std::int32_t> key_offsets() const { return key_offsets_; }
  std::span<const std::int32_t> key_slot() const { return key_slot_; }
  std::span<const std::int32_t> send_offsets() const { return send_offsets_; }
  std::span<const std::int32_t> expert_counts() const { return expert_counts_; }
  bool dedup() const { return dedup_; }
  std::span<const std::int32_t> payload_offsets() const { return payload_offsets_; }
  std::span<const std::int32_t> payload_token() const { return payload_token_; }
  std::span<const std::int32_t> payload_row() const { return payload_row_; }

  // Rows for one peer.
  std::int32_t send_count(PeerSlot peer) const {
    return send_offsets_[peer.index() + 1] - send_offsets_[peer.index()];
  }
  // Rows that dispatch sends to one peer: fewer than send_count() under dedup.
  std::int32_t payload_count(PeerSlot peer) const {
    return dedup_ ? payload_offsets_[peer.index() + 1] - payload_offsets_[peer.index()]
                  : send_count(peer);
  }
  // Rows for each slot of `peer`'s rank in local slot order: what the count exchange sends.
  std::span<const std::int32_t> slot_counts(PeerSlot peer) const;

 private:
  friend class HostPlanBuilder;
  friend class CudaPlan;  // DevicePlan's, for read_back()
  std::int32_t tokens_ = 0, topk_ = 0, experts_ = 0, peers_ = 0;
  bool dedup_ = false;
  std::uint32_t status_ = 0;
  Column slot_, send_position_, send_order_, key_offsets_, key_slot_, send_offsets_, expert_counts_,
      payload_offsets_, payload_token_, payload_row_;
  Column slot_counts_;       // [Q] in key order
  Column peer_key_offsets_;  // [P+1] first send key of each peer
  Column scratch_;           // kept, so that a rebuild allocates nothing
};

// O(routes + ranks + slots), one counting sort. `source` is the origin rank (used by the hashed
// rule). Throws RouteCountMismatch when the id column isn't [T_l*k] or has more than 2^31-1 rows,
// RankOutsideGroup when the source or a slot's rank is no member, SlotOutsideReplicaSet when the
// table names a slot of another expert, ReplicaCardinalityZero when it has none for an expert with
// routes (or no quota for a route), ExpertIdOutOfRange for an id outside [0, E) other than
// dropped_route, InvalidValue when the table's columns don't fit together.
HostPlan build_plan(const RoutesView& routes, const SelectionTable& table,
                    const Placement& placement, const ProcessGroup& group, Rank source,
                    const PlanOptions& options = {});
// The same from an explicit assignment: one slot per route ([T_l*k], -1 for dropped routes).
// Checks every assignment against the placement (SlotOutsideReplicaSet, ReplicaCardinalityZero for
// an accepted route without a slot, RouteConservationMismatch for a dropped route with one).
HostPlan build_plan(const RoutesView& routes, std::span<const std::int32_t> assigned_slots,
                    const Placement& placement, const ProcessGroup& group, Rank source,
                    const PlanOptions& options = {});
// The same in the memory of an earlier plan, whose size only grows: nothing is allocated once it
// has held its largest batch. When this throws, `plan` is empty.
void rebuild_plan(HostPlan& plan, const RoutesView& routes, const SelectionTable& table,
                  const Placement& placement, const ProcessGroup& group, Rank source,
                  const PlanOptions& options = {});
void rebuild_plan(HostPlan& plan, const RoutesView& routes,
                  std::span<const std::int32_t> assigned_slots, const Placement& placement,
                  const ProcessGroup& group, Rank source, const PlanOptions& options = {});

// Raw host columns of a receive plan, as ReceivePlan names them.
struct ReceiveView {
  std::int32_t peers;        // P
  std::int32_t local_slots;  // Q_local
  std::int32_t rows;

  const std::int32_t* recv_counts;      // [P]
  const std::int32_t* recv_offsets;     // [P+1]
  const std::int32_t* expert_offsets;   // [Q_local+1]
  const std::int32_t* expert_order;     // [rows]
  const std::int32_t* expert_position;  // [rows]
};

// What a rank does with the rows it receives: source-major as they arrive (peer order),
// expert-major as the experts want them: (local slot, source rank, source send position).
class ReceivePlan {
 public:
  // Pointers into this plan: valid until it is moved, rebuilt or destroyed.
  ReceiveView view() const;

  std::int32_t rows() const { return static_cast<std::int32_t>(expert_order_.size()); }
  std::span<const std::int32_t> recv_counts() const { return recv_counts_; }    // [P] peer order
  std::span<const std::int32_t> recv_offsets() const { return recv_offsets_; }  // [P+1]
  std::span<const std::int32_t> expert_offsets() const { return expert_offsets_; }  // [Q_local+1]
  // expert_order[i]: receive row of expert row i; expert_position is its inverse.
  std::span<const std::int32_t> expert_order() const { return expert_order_; }
  std::span<const std::int32_t> expert_position() const { return expert_position_; }

 private:
  friend void rebuild_receive_plan(ReceivePlan&, std::span<const std::int32_t>, std::int32_t,
                                   const ProcessGroup&);
  Column recv_counts_, recv_offsets_, expert_offsets_, expert_order_, expert_position_;
};

// `counts` is [P, Q_local]: rows that each peer (in peer order) sends to each local slot.
// PeerCountDisagreement when it has another size, a count is negative or the sum exceeds 2^31-1.
ReceivePlan build_receive_plan(std::span<const std::int32_t> counts, std::int32_t local_slots,
                               const ProcessGroup& group);
// The same in the memory of an earlier plan, likewise. When this throws, `plan` is empty.
void rebuild_receive_plan(ReceivePlan& plan, std::span<const std::int32_t> counts,
                          std::int32_t local_slots, const ProcessGroup& group);

// Every contract of the plan, re-derived in O(routes + ranks + slots) (check level `full`, tests).
// Throws the code of the first violation, in this order: RouteCountMismatch, LogicalCountMismatch,
// SlotCountMismatch, GroupShapeMismatch (sizes); ExpertIdOutOfRange, ReplicaCardinalityZero,
// RouteConservationMismatch, SlotOutsideReplicaSet (the slot of each route); LogicalCountMismatch
// (expert counts); LocalSlotOrderMismatch (send keys); RouteConservationMismatch, SlotCountMismatch
// (key offsets); SendOffsetMismatch; SendOrderMismatch; InversePositionMismatch; and the last three
// for the payload columns of dedup. `plan` holds host pointers.
void check_plan(const PlanView& plan, const RoutesView& routes, const Placement& placement,
                const ProcessGroup& group);
void check_plan(const HostPlan& plan, const RoutesView& routes, const Placement& placement,
                const ProcessGroup& group);

// Every contract of a receive plan, re-derived from the counts that it was built from. Throws the
// code of the first violation, in this order: GroupShapeMismatch, SlotCountMismatch (sizes);
// RecvSplitMismatch (counts and offsets by peer); ExpertOffsetMismatch; ExpertOrderMismatch (a row
// outside its slot's segment, or rows of a segment in another order than source rank, source send
// position); InversePositionMismatch.
void check_receive_plan(const ReceiveView& plan, std::span<const std::int32_t> counts,
                        std::int32_t local_slots, const ProcessGroup& group);

}  // namespace waybill
