// Every rank's plan and receive plan for one peer order, and what they mean in names of routes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "conformance/problem.h"
#include "waybill/plan.h"

namespace waybill::conformance {

using Names = std::vector<std::string>;
using Counts = std::vector<std::int32_t>;

class Trace {
 public:
  // Plans all ranks of `group`. The library's own errors. `problem` is borrowed.
  Trace(const Problem& problem, ProcessGroup group);

  const ProcessGroup& group() const { return group_; }
  const HostPlan& plan(std::int32_t rank) const { return plans_[static_cast<std::size_t>(rank)]; }
  const ReceivePlan& receive(std::int32_t rank) const {
    return receives_[static_cast<std::size_t>(rank)];
  }
  std::vector<const HostPlan*> plans_in_peer_order() const;

  // By global rank.
  std::vector<Counts> send_counts() const;   // [P][P] columns in peer order
  std::vector<Counts> send_offsets() const;  // [P][P+1]
  std::vector<Counts> recv_counts() const;   // [P][P] in peer order
  std::vector<Names> send_order() const;
  std::vector<std::vector<Names>> send_segments() const;
  std::vector<Names> receive_order() const;  // sources in rank order
  const std::vector<Names>& expert_order() const { return expert_order_; }
  // Rows of one slot of a rank, in local slot order.
  std::vector<Names> expert_segments(std::int32_t rank) const;

  struct Positions {
    std::int32_t send, receive, expert;
  };
  std::map<std::string, Positions> positions() const;
  // Names of the routes of a rank in semantic order, each found by following its row out to its
  // expert and back.
  Names round_trip(std::int32_t rank) const;

  std::int64_t slot_rows(SlotId slot) const;

  // [T_l][d] rows of hundredths: each row goes to its slot, is scaled there and comes back.
  std::vector<std::vector<double>> combine(std::int32_t rank) const;

 private:
  // Row in the receive buffer of the destination that `send_row` of `source` goes to.
  std::int32_t receive_row(Rank source, PeerSlot destination, std::int32_t send_row) const;
  Names segment(Rank source, PeerSlot destination) const;
  Names expert_rows_of(Rank rank) const;
  std::vector<float> returned_rows(std::int32_t rank) const;

  const Problem& problem_;
  ProcessGroup group_;
  std::vector<HostPlan> plans_;
  std::vector<ReceivePlan> receives_;
  std::vector<Names> expert_order_;
};

}  // namespace waybill::conformance
