// The dispatch fixtures of the reference text, recomputed from their primary inputs (0x03).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/reference_problem.h"
#include "support/fault.h"

namespace waybill::testing {
namespace {

using Columns = std::vector<std::vector<std::int32_t>>;
using Names = std::vector<std::string>;

std::vector<std::int32_t> column(std::span<const std::int32_t> values) {
  return {values.begin(), values.end()};
}

Columns send_offsets(const ReferenceProblem& p) {
  Columns offsets;
  for (const HostPlan& plan : p.plans) offsets.push_back(column(plan.send_offsets()));
  return offsets;
}

// C[source][destination] in peer order of the destination.
Columns send_counts(const ReferenceProblem& p) {
  Columns counts;
  for (const HostPlan& plan : p.plans) {
    counts.emplace_back();
    for (std::int32_t peer = 0; peer < plan.peers(); ++peer) {
      counts.back().push_back(plan.send_count(PeerSlot{peer}));
    }
  }
  return counts;
}

Columns recv_counts(const ReferenceProblem& p) {
  Columns counts;
  for (const ReceivePlan& receive : p.receives) counts.push_back(column(receive.recv_counts()));
  return counts;
}

std::vector<Names> by_rank(const ReferenceProblem& p, const auto& order_of) {
  std::vector<Names> orders;
  for (std::int32_t rank = 0; rank < p.group.size(); ++rank) orders.push_back(order_of(rank));
  return orders;
}

std::vector<Names> receive_orders(const ReferenceProblem& p) {
  const std::vector<Rank> ascending = {Rank{0}, Rank{1}, Rank{2}, Rank{3}};
  return by_rank(p, [&](std::int32_t rank) { return p.receive_order(rank, ascending); });
}

std::vector<Names> expert_orders(const ReferenceProblem& p) {
  return by_rank(p, [&](std::int32_t rank) { return p.expert_order(rank); });
}

void expect_segments(const ReferenceProblem& p, const Json& ranks) {
  for (const Json& expected : ranks) {
    const std::int32_t rank = expected.at("rank");
    const auto offsets = p.receives[rank].expert_offsets();
    EXPECT_EQ(Json(column(offsets)), expected.at("offsets"));
    const Names order = p.expert_order(rank);
    const auto slots = p.placement.slots_on(Rank{rank});
    ASSERT_EQ(slots.size(), expected.at("segments").size());
    for (std::size_t q = 0; q < slots.size(); ++q) {
      const Json& segment = expected.at("segments")[q];
      EXPECT_EQ(p.placement.slot(slots[q]).name, segment.at("slot"));
      EXPECT_EQ(Json(Names(order.begin() + offsets[q], order.begin() + offsets[q + 1])),
                segment.at("rows"));
    }
  }
}

TEST(ReferenceDispatch, EightRoutesOverFourRanks) {
  const Json expected = read_fixture("dispatch.json");
  const ReferenceProblem p = reference_problem({0, 1, 2, 3});
  EXPECT_EQ(Json(send_counts(p)), expected.at("count_matrix"));
  EXPECT_EQ(Json(send_offsets(p)), expected.at("send_offsets"));
  EXPECT_EQ(Json(p.send_order()), expected.at("send_order"));
  EXPECT_EQ(Json(recv_counts(p)), expected.at("recv_splits"));
  EXPECT_EQ(Json(receive_orders(p)), expected.at("receive_order"));
  EXPECT_EQ(Json(expert_orders(p)), expected.at("expert_order"));
  expect_segments(p, expected.at("expert_segments"));
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    check_plan(p.plans[rank], p.routes(rank), p.placement, p.group);
  }
}

TEST(ReferenceDispatch, ThreePositionsOfEachRoute) {
  const ReferenceProblem p = reference_problem({0, 1, 2, 3});
  std::map<std::string, Json> positions;
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    for (std::size_t r = 0; r < p.ids[rank].size(); ++r) {
      Json& route = positions[p.ids[rank][r]];
      route["id"] = p.ids[rank][r];
      route["source_send"] = p.plans[rank].send_position()[r];
    }
    const Names received = receive_orders(p)[rank];
    for (std::size_t i = 0; i < received.size(); ++i) {
      positions[received[i]]["destination_receive"] = i;
      positions[received[i]]["local_expert"] = p.receives[rank].expert_position()[i];
    }
  }
  const Json fixture = read_fixture("dispatch.json");
  ASSERT_EQ(fixture.at("positions").size(), positions.size());
  for (const Json& expected : fixture.at("positions")) {
    EXPECT_EQ(positions.at(expected.at("id")), expected);
  }
}

TEST(ReferenceDispatch, PeersInAnotherOrder) {
  const Json expected = read_fixture("dispatch.json").at("peer_slot_variant");
  const ReferenceProblem p =
      reference_problem(expected.at("peer_order").get<std::vector<std::int32_t>>());
  EXPECT_EQ(Json(send_counts(p)), expected.at("send_counts"));
  EXPECT_EQ(Json(send_offsets(p)), expected.at("send_offsets"));
  EXPECT_EQ(Json(p.send_order()), expected.at("send_order"));
  EXPECT_EQ(Json(recv_counts(p)), expected.at("recv_counts"));
  EXPECT_EQ(Json(receive_orders(p)), expected.at("receive_order"));
  EXPECT_EQ(expert_orders(p), expert_orders(reference_problem({0, 1, 2, 3})));
}

TEST(ReferenceDispatch, TiesAndAnEmptySlot) {
  const Json expected = read_fixture("dispatch.json").at("tie_case");
  const ReferenceProblem p = reference_problem({0, 1, 2, 3}, expected.at("reassign"));
  EXPECT_EQ(Json(send_counts(p)), expected.at("count_matrix"));
  EXPECT_EQ(Json(send_offsets(p)), expected.at("send_offsets"));
  EXPECT_EQ(Json(p.send_order()), expected.at("send_order"));
  EXPECT_EQ(Json(receive_orders(p)), expected.at("receive_order"));
  expect_segments(p, expected.at("expert_segments"));
}

TEST(ReferenceDispatch, SendBufferSortedByRankUnderPeerOffsetsIsRefused) {
  const Json bad = read_fixture("dispatch.json")
                       .at("bad_examples")
                       .at("send_sorted_by_global_rank_with_peer_offsets_rank0");
  const ReferenceProblem by_rank_order = reference_problem({0, 1, 2, 3});
  const ReferenceProblem p = reference_problem({2, 0, 3, 1});
  EXPECT_EQ(Json(by_rank_order.send_order()[0]), bad.at("buffer"));
  EXPECT_EQ(Json(column(p.plans[0].send_offsets())), bad.at("offsets"));
  PlanView view = p.plans[0].view();
  view.send_order = by_rank_order.plans[0].send_order().data();
  EXPECT_EQ(name(fault([&] { check_plan(view, p.routes(0), p.placement, p.group); }).code()),
            bad.at("error"));
}

TEST(ReferenceDispatch, ReceiveOrderIsNotExpertOrder) {
  const Json bad =
      read_fixture("dispatch.json").at("bad_examples").at("receive_read_as_expert_major_rank1");
  const ReferenceProblem p = reference_problem({0, 1, 2, 3});
  EXPECT_EQ(Json(receive_orders(p)[1]), bad.at("receive_order"));
  const Names order = p.expert_order(1);
  const auto offsets = p.receives[1].expert_offsets();
  EXPECT_EQ(Json(Names(order.begin(), order.begin() + offsets[1])), bad.at("right").at("q1"));
  EXPECT_EQ(Json(Names(order.begin() + offsets[1], order.end())), bad.at("right").at("q2"));
}

TEST(ReferenceDispatch, TwoRanksWithTwoTokensEach) {
  const Json trace = read_fixture("two_rank_trace.json");
  ReferenceProblem p{.placement = Placement::contiguous(PlacementVersion("two-rank"), 2, 2),
                     .group = ProcessGroup::identity(2)};
  p.topk = trace.at("shape").at("k");
  p.tokens = trace.at("shape").at("tokens_per_rank").get<std::vector<std::int32_t>>();
  p.ids.resize(2);
  p.experts.resize(2);
  p.gates.assign(2, std::vector<float>(4, 0.5F));
  for (const Json& route : trace.at("routes")) {
    const std::int32_t rank = route.at("source_rank");
    p.ids[rank].push_back(route.at("id"));
    p.experts[rank].push_back(route.at("logical_expert"));
  }
  p.assigned = p.experts;  // expert e is slot e
  p.plan();
  EXPECT_EQ(Json(send_counts(p)), trace.at("count_matrix"));
  EXPECT_EQ(Json(send_offsets(p)), trace.at("send_offsets"));
  EXPECT_EQ(Json(p.send_order()), trace.at("send_order"));
  EXPECT_EQ(Json(recv_counts(p)), trace.at("recv_splits"));
  EXPECT_EQ(Json(by_rank(p,
                         [&](std::int32_t rank) {
                           return p.receive_order(rank, {Rank{0}, Rank{1}});
                         })),
            trace.at("receive_order"));
}

}  // namespace
}  // namespace waybill::testing
