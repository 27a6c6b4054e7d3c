#include "conformance/trace.h"

#include <algorithm>

#include "exec/combine_rows.h"

namespace waybill::conformance {
namespace {

Counts counts_of(std::span<const std::int32_t> values) { return {values.begin(), values.end()}; }

}  // namespace

Trace::Trace(const Problem& problem, ProcessGroup group)
    : problem_(problem), group_(std::move(group)) {
  if (group_.size() != problem.ranks()) {
    throw Error(Code::GroupShapeMismatch).expected(problem.ranks()).found(group_.size());
  }
  for (std::int32_t rank = 0; rank < group_.size(); ++rank) {
    const Origin& origin = problem.origins[static_cast<std::size_t>(rank)];
    const RoutesView routes = origin.routes(problem.topk);
    plans_.push_back(build_plan(routes, origin.assigned, *problem.placement, group_, Rank{rank}));
    check_plan(plans_.back(), routes, *problem.placement, group_);
  }
  for (std::int32_t rank = 0; rank < group_.size(); ++rank) {
    Counts counts;
    for (const Rank source : group_.peer_order()) {
      const auto sent = plans_[source.index()].slot_counts(group_.peer_of(Rank{rank}));
      counts.insert(counts.end(), sent.begin(), sent.end());
    }
    const auto slots = static_cast<std::int32_t>(problem.placement->slots_on(Rank{rank}).size());
    receives_.push_back(build_receive_plan(counts, slots, group_));
    check_receive_plan(receives_.back().view(), counts, slots, group_);
    expert_order_.push_back(expert_rows_of(Rank{rank}));
  }
}

std::vector<const HostPlan*> Trace::plans_in_peer_order() const {
  std::vector<const HostPlan*> plans;
  for (const Rank rank : group_.peer_order()) plans.push_back(&plans_[rank.index()]);
  return plans;
}

std::vector<Counts> Trace::send_counts() const {
  std::vector<Counts> counts;
  for (const HostPlan& plan : plans_) {
    Counts& row = counts.emplace_back();
    for (std::int32_t peer = 0; peer < plan.peers(); ++peer) {
      row.push_back(plan.send_count(PeerSlot{peer}));
    }
  }
  return counts;
}

std::vector<Counts> Trace::send_offsets() const {
  std::vector<Counts> offsets;
  for (const HostPlan& plan : plans_) offsets.push_back(counts_of(plan.send_offsets()));
  return offsets;
}

std::vector<Counts> Trace::recv_counts() const {
  std::vector<Counts> counts;
  for (const ReceivePlan& receive : receives_) counts.push_back(counts_of(receive.recv_counts()));
  return counts;
}

Names Trace::segment(Rank source, PeerSlot destination) const {
  const HostPlan& plan = plans_[source.index()];
  Names names;
  for (std::int32_t row = plan.send_offsets()[destination.index()];
       row < plan.send_offsets()[destination.index() + 1]; ++row) {
    names.push_back(problem_.origins[source.index()].ids[plan.send_order()[row]]);
  }
  return names;
}

std::vector<Names> Trace::send_order() const {
  std::vector<Names> orders;
  for (const std::vector<Names>& segments : send_segments()) {
    Names& order = orders.emplace_back();
    for (const Names& names : segments) order.insert(order.end(), names.begin(), names.end());
  }
  return orders;
}

std::vector<std::vector<Names>> Trace::send_segments() const {
  std::vector<std::vector<Names>> segments;
  for (std::int32_t rank = 0; rank < group_.size(); ++rank) {
    std::vector<Names>& row = segments.emplace_back();
    for (std::int32_t peer = 0; peer < group_.size(); ++peer) {
      row.push_back(segment(Rank{rank}, PeerSlot{peer}));
    }
  }
  return segments;
}

std::vector<Names> Trace::receive_order() const {
  std::vector<Names> orders;
  for (std::int32_t rank = 0; rank < group_.size(); ++rank) {
    Names& order = orders.emplace_back();
    for (std::int32_t source = 0; source < group_.size(); ++source) {
      const Names names = segment(Rank{source}, group_.peer_of(Rank{rank}));
      order.insert(order.end(), names.begin(), names.end());
    }
  }
  return orders;
}

Names Trace::expert_rows_of(Rank rank) const {
  Names arrived;
  for (const Rank source : group_.peer_order()) {
    const Names names = segment(source, group_.peer_of(rank));
    arrived.insert(arrived.end(), names.begin(), names.end());
  }
  Names order;
  for (const std::int32_t row : receive(rank.value).expert_order()) order.push_back(arrived[row]);
  return order;
}

std::vector<Names> Trace::expert_segments(std::int32_t rank) const {
  const Names& order = expert_order_[static_cast<std::size_t>(rank)];
  const auto offsets = receive(rank).expert_offsets();
  std::vector<Names> segments;
  for (std::size_t q = 0; q + 1 < offsets.size(); ++q) {
    segments.emplace_back(order.begin() + offsets[q], order.begin() + offsets[q + 1]);
  }
  return segments;
}

std::int32_t Trace::receive_row(Rank source, PeerSlot destination, std::int32_t send_row) const {
  const ReceivePlan& receive = receives_[group_.rank_of(destination).index()];
  return receive.recv_offsets()[group_.peer_of(source).index()] + send_row -
         plans_[source.index()].send_offsets()[destination.index()];
}

std::map<std::string, Trace::Positions> Trace::positions() const {
  std::map<std::string, Positions> positions;
  for (std::int32_t rank = 0; rank < group_.size(); ++rank) {
    const HostPlan& own = plan(rank);
    for (std::int32_t peer = 0; peer < own.peers(); ++peer) {
      for (std::int32_t row = own.send_offsets()[peer]; row < own.send_offsets()[peer + 1]; ++row) {
        const std::int32_t arrived = receive_row(Rank{rank}, PeerSlot{peer}, row);
        const ReceivePlan& receive = receives_[group_.rank_of(PeerSlot{peer}).index()];
        const auto& ids = problem_.origins[static_cast<std::size_t>(rank)].ids;
        positions[ids[own.send_order()[row]]] = {row, arrived, receive.expert_position()[arrived]};
      }
    }
  }
  return positions;
}

Names Trace::round_trip(std::int32_t rank) const {
  const HostPlan& own = plan(rank);
  const Origin& origin = problem_.origins[static_cast<std::size_t>(rank)];
  Names home;
  for (std::size_t route = 0; route < origin.ids.size(); ++route) {
    if (origin.assigned[route] == dropped_route) continue;
    const std::int32_t row = own.send_position()[route];
    const Rank destination = problem_.placement->rank_of(SlotId{own.slot()[route]});
    const std::int32_t arrived = receive_row(Rank{rank}, group_.peer_of(destination), row);
    const std::int32_t at = receives_[destination.index()].expert_position()[arrived];
    home.push_back(expert_order_[destination.index()][static_cast<std::size_t>(at)]);
  }
  return home;
}

std::int64_t Trace::slot_rows(SlotId slot) const {
  const Rank rank = problem_.placement->rank_of(slot);
  const auto offsets = receives_[rank.index()].expert_offsets();
  const auto local = static_cast<std::size_t>(problem_.placement->local_index(slot));
  return offsets[local + 1] - offsets[local];
}

// Rows in this rank's send order, as the experts of the slots that they were sent to give them.
std::vector<float> Trace::returned_rows(std::int32_t rank) const {
  const HostPlan& own = plan(rank);
  const Origin& origin = problem_.origins[static_cast<std::size_t>(rank)];
  const auto width = static_cast<std::size_t>(problem_.width);
  std::vector<float> returned;
  for (std::int32_t row = 0; row < own.rows(); ++row) {
    const auto segment = std::upper_bound(own.key_offsets().begin(), own.key_offsets().end(), row);
    const SlotId slot{own.key_slot()[segment - own.key_offsets().begin() - 1]};
    const float scale = problem_.scales[problem_.placement->expert_of(slot).index()];
    const auto token = static_cast<std::size_t>(own.send_order()[row] / problem_.topk);
    for (std::size_t i = 0; i < width; ++i) {
      returned.push_back(scale * origin.hidden[token * width + i]);
    }
  }
  return returned;
}

std::vector<std::vector<double>> Trace::combine(std::int32_t rank) const {
  const HostPlan& own = plan(rank);
  const Origin& origin = problem_.origins[static_cast<std::size_t>(rank)];
  const auto width = static_cast<std::size_t>(problem_.width);
  const std::vector<float> returned = returned_rows(rank);
  const PeerSlot self = group_.peer_of(Rank{rank});
  const WireOrder wire(own.send_offsets(), self);
  std::vector<float> remote, local;
  for (std::int32_t row = 0; row < own.rows(); ++row) {
    auto& rows = wire.is_local(row) ? local : remote;
    const auto first = returned.begin() + static_cast<std::ptrdiff_t>(width) * row;
    rows.insert(rows.end(), first, first + static_cast<std::ptrdiff_t>(width));
  }
  std::vector<float> output(static_cast<std::size_t>(origin.tokens) * width);
  CombineInput input;
  input.routes = origin.routes(problem_.topk);
  input.send_position = own.send_position();
  input.sent = wire;
  input.returned = std::as_bytes(std::span(remote)).data();
  input.local_rows = std::as_bytes(std::span(local)).data();
  input.to.output =
      TensorView::contiguous(output.data(), DType::f32, {origin.tokens, problem_.width});
  combine_tokens(input, 0, origin.tokens);

  std::vector<std::vector<double>> tokens;
  for (std::size_t token = 0; token < static_cast<std::size_t>(origin.tokens); ++token) {
    const auto first = output.begin() + static_cast<std::ptrdiff_t>(token * width);
    tokens.emplace_back(first, first + static_cast<std::ptrdiff_t>(width));
  }
  return tokens;
}

}  // namespace waybill::conformance
