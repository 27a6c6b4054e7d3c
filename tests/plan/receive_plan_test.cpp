#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "plan/shape_generator.h"
#include "property/property.h"
#include "support/fault.h"

namespace waybill::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A routed row on its way: who sent it, which of its routes it is, and where it should run.
struct Row {
  std::int32_t origin, route, slot, send_row;
  auto operator<=>(const Row&) const = default;
};

// All ranks of a group plan one routing problem each.
struct Exchange {
  std::vector<RoutingCase> cases;  // by rank; one placement and group
  std::vector<HostPlan> plans;     // by rank
  std::vector<ReceivePlan> receives;

  const ProcessGroup& group() const { return cases[0].group; }
  const Placement& placement() const { return cases[0].placement; }
};

Exchange exchange_of(const Shape& shape, bool empty_ranks) {
  Exchange x;
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    RoutingCase c = make_case(shape);
    std::mt19937 random(shape.seed + rank);
    Shape own = shape;
    if (empty_ranks && random() % 2 == 0) own.tokens = 0;
    c.experts = ids_of(own, random);
    c.gates.assign(c.experts.size(), 1.0F);
    c.routes = {own.tokens, own.topk, c.experts, c.gates};
    c.source = Rank{rank};
    x.cases.push_back(std::move(c));
    RoutingCase& kept = x.cases.back();
    kept.routes.experts = kept.experts;
    kept.routes.gates = kept.gates;
    x.plans.push_back(build_plan(kept.routes, kept.table, kept.placement, kept.group, kept.source));
  }
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    std::vector<std::int32_t> counts;
    for (const Rank source : x.group().peer_order()) {
      const auto sent = x.plans[source.index()].slot_counts(x.group().peer_of(Rank{rank}));
      counts.insert(counts.end(), sent.begin(), sent.end());
    }
    const auto slots = static_cast<std::int32_t>(x.placement().slots_on(Rank{rank}).size());
    x.receives.push_back(build_receive_plan(counts, slots, x.group()));
  }
  return x;
}

// Rows as the exchange delivers them: each peer's segment, in peer order.
std::vector<Row> received_rows(const Exchange& x, Rank rank) {
  std::vector<Row> rows;
  const PeerSlot here = x.group().peer_of(rank);
  for (const Rank source : x.group().peer_order()) {
    const HostPlan& plan = x.plans[source.index()];
    for (std::int32_t i = plan.send_offsets()[here.index()];
         i < plan.send_offsets()[here.index() + 1]; ++i) {
      const std::int32_t route = plan.send_order()[i];
      rows.push_back({source.value, route, plan.slot()[route], i});
    }
  }
  return rows;
}

PROPERTY(ReceivePlan, IsAGlobalSortBySlotSourceAndSendPosition) {
  const Shape shape = draw_shape();
  const bool empty_ranks = property::draw_bool();
  const Exchange x = exchange_of(shape, empty_ranks);
  for (std::int32_t r = 0; r < shape.ranks; ++r) {
    const ReceivePlan& receive = x.receives[r];
    const std::vector<Row> received = received_rows(x, Rank{r});
    HOLDS(receive.rows() == static_cast<std::int32_t>(received.size()));
    std::vector<Row> sorted = received;
    std::sort(sorted.begin(), sorted.end(), [&](const Row& a, const Row& b) {
      const auto key = [&](const Row& row) {
        return std::tuple(x.placement().local_index(SlotId{row.slot}), row.origin, row.send_row);
      };
      return key(a) < key(b);
    });
    for (std::int32_t i = 0; i < receive.rows(); ++i) {
      HOLDS(received[receive.expert_order()[i]] == sorted[i]);
      HOLDS(receive.expert_position()[receive.expert_order()[i]] == i);
    }
    const auto slots = x.placement().slots_on(Rank{r});
    for (std::size_t q = 0; q < slots.size(); ++q) {
      for (std::int32_t i = receive.expert_offsets()[q]; i < receive.expert_offsets()[q + 1]; ++i) {
        HOLDS(sorted[i].slot == slots[q].value);
      }
    }
  }
}

// Dispatch, expert repack, and the way back: every accepted route comes home, and nothing else.
PROPERTY(ReceivePlan, RoundTripIsTheIdentity) {
  const Shape shape = draw_shape();
  const bool empty_ranks = property::draw_bool();
  const Exchange x = exchange_of(shape, empty_ranks);
  std::vector<std::vector<std::int32_t>> home(shape.ranks);
  for (std::int32_t r = 0; r < shape.ranks; ++r) home[r].assign(x.plans[r].rows(), -1);
  for (std::int32_t r = 0; r < shape.ranks; ++r) {
    const ReceivePlan& receive = x.receives[r];
    const std::vector<Row> received = received_rows(x, Rank{r});
    std::vector<Row> expert_major(received.size());
    for (std::size_t i = 0; i < received.size(); ++i) {
      expert_major[i] = received[receive.expert_order()[i]];
    }
    for (std::int32_t p = 0; p < shape.ranks; ++p) {
      const std::int32_t source = x.group().rank_of(PeerSlot{p}).value;
      std::int32_t send_row = x.plans[source].send_offsets()[x.group().peer_of(Rank{r}).index()];
      for (std::int32_t i = receive.recv_offsets()[p]; i < receive.recv_offsets()[p + 1]; ++i) {
        home[source][send_row++] = expert_major[receive.expert_position()[i]].route;
      }
    }
  }
  for (std::int32_t r = 0; r < shape.ranks; ++r) {
    for (std::int32_t route = 0; route < x.cases[r].routes.size(); ++route) {
      const std::int32_t position = x.plans[r].send_position()[route];
      if (position != dropped_route) HOLDS(home[r][position] == route);
      HOLDS((position == dropped_route) == (x.cases[r].experts[route] == dropped_route));
    }
  }
}

TEST(ReceivePlan, RebuiltInPlaceKeepsNothingOfTheLastStep) {
  const ProcessGroup group = ProcessGroup::identity(2);
  ReceivePlan plan = build_receive_plan(std::vector{3, 1, 0, 2}, 2, group);
  EXPECT_THAT(plan.expert_order(), ElementsAre(0, 1, 2, 3, 4, 5));
  rebuild_receive_plan(plan, std::vector{0, 1, 1, 0}, 2, group);
  EXPECT_THAT(plan.recv_offsets(), ElementsAre(0, 1, 2));
  EXPECT_THAT(plan.expert_offsets(), ElementsAre(0, 1, 2));
  EXPECT_THAT(plan.expert_order(), ElementsAre(1, 0));
  rebuild_receive_plan(plan, std::vector{0, 0, 0, 0}, 2, group);
  EXPECT_THAT(plan.expert_order(), IsEmpty());
}

TEST(ReceivePlan, RefusesCountsThatNoPeerCanHaveMeant) {
  const ProcessGroup group = ProcessGroup::identity(2);
  const auto code = [&](std::vector<std::int32_t> counts, std::int32_t slots) {
    return fault([&] { build_receive_plan(counts, slots, group); });
  };
  EXPECT_EQ(code({1, 2, 3}, 2).code(), Code::PeerCountDisagreement);
  EXPECT_EQ(code({1, 2}, -1).code(), Code::PeerCountDisagreement);
  const Error negative = code({1, 2, 3, -4}, 2);
  EXPECT_EQ(negative.code(), Code::PeerCountDisagreement);
  EXPECT_EQ(negative.coordinate("source rank"), "1");
  EXPECT_EQ(negative.coordinate("local slot"), "1");
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(code({most, 0, 1, 0}, 2).code(), Code::PeerCountDisagreement);
}

}  // namespace
}  // namespace waybill::testing
