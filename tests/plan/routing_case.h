// Random routing problems, and the plan by direct evaluation: the definition of each column, with
// no counting sort.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "waybill/plan.h"

namespace waybill::testing {

struct Shape {
  std::int32_t tokens = 0, topk = 1, experts = 1, ranks = 1, extra_slots = 0;
  std::int32_t drop_percent = 0;
  bool one_expert = false;  // every route to expert 0
  SelectionRule rule = SelectionRule::cyclic;
  std::uint32_t seed = 0;
};

// Unequal slots per rank (at least one), replicas at random, any peer order, duplicates within a
// token.
struct RoutingCase {
  std::vector<std::int32_t> experts;
  std::vector<float> gates;
  RoutesView routes;
  Placement placement;
  ProcessGroup group;
  Rank source;
  SelectionTable table;
};

inline std::int32_t below(std::mt19937& random, std::int32_t limit) {
  return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(limit));
}

inline Placement placement_of(const Shape& shape, std::mt19937& random) {
  std::vector<std::int32_t> slot_experts(shape.experts);
  std::iota(slot_experts.begin(), slot_experts.end(), 0);
  const std::int32_t slots = std::max(shape.experts + shape.extra_slots, shape.ranks);
  while (static_cast<std::int32_t>(slot_experts.size()) < slots) {
    slot_experts.push_back(below(random, shape.experts));
  }
  std::shuffle(slot_experts.begin(), slot_experts.end(), random);
  std::vector<std::vector<std::int32_t>> lists(shape.ranks);
  for (std::int32_t q = 0; q < slots; ++q) {
    lists[q < shape.ranks ? q : below(random, shape.ranks)].push_back(slot_experts[q]);
  }
  return Placement::from_lists(PlacementVersion("random"), shape.experts, lists);
}

inline ProcessGroup group_of(std::int32_t ranks, std::mt19937& random) {
  std::vector<Rank> order(ranks);
  for (std::int32_t r = 0; r < ranks; ++r) order[r] = Rank{r};
  std::shuffle(order.begin(), order.end(), random);
  return {ProcessGroupId("random"), GroupEpoch{1}, std::move(order)};
}

inline std::vector<std::int32_t> ids_of(const Shape& shape, std::mt19937& random) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(shape.tokens) * shape.topk);
  for (std::int32_t& id : ids) {
    id = below(random, 100) < shape.drop_percent ? dropped_route
         : shape.one_expert                      ? 0
                                                 : below(random, shape.experts);
  }
  return ids;
}

// A random subset of each expert's replicas (at least one), in random order, with quotas that cover
// all its routes.
inline SelectionTable table_of(const Shape& shape, const Placement& placement,
                               std::mt19937& random) {
  SelectionTable table;
  table.rule = shape.rule;
  table.offsets.push_back(0);
  const std::int64_t routes = std::int64_t{shape.tokens} * shape.topk;
  for (std::int32_t e = 0; e < shape.experts; ++e) {
    const auto replicas = placement.replicas(ExpertId{e});
    std::vector<SlotId> candidates(replicas.begin(), replicas.end());
    std::shuffle(candidates.begin(), candidates.end(), random);
    candidates.resize(1 + below(random, static_cast<std::int32_t>(candidates.size())));
    const std::int64_t base = below(random, 50);
    std::vector<std::int64_t> ends(candidates.size());
    for (std::int64_t& end : ends) {
      end = base + below(random, static_cast<std::int32_t>(routes) + 1);
    }
    std::sort(ends.begin(), ends.end());
    ends.back() = base + routes;
    table.candidates.insert(table.candidates.end(), candidates.begin(), candidates.end());
    table.quota_end.insert(table.quota_end.end(), ends.begin(), ends.end());
    table.ordinal_base.push_back(base);
    table.offsets.push_back(static_cast<std::int32_t>(table.candidates.size()));
  }
  return table;
}

inline RoutingCase make_case(const Shape& shape) {
  std::mt19937 random(shape.seed);
  Placement placement = placement_of(shape, random);
  ProcessGroup group = group_of(shape.ranks, random);
  SelectionTable table = table_of(shape, placement, random);
  std::vector<std::int32_t> ids = ids_of(shape, random);
  std::vector<float> gates(ids.size(), 1.0F);
  const Rank source{below(random, shape.ranks)};
  RoutingCase c{std::move(ids), std::move(gates), {}, std::move(placement), std::move(group),
                source,         std::move(table)};
  c.routes = {shape.tokens, shape.topk, c.experts, c.gates};
  return c;
}

struct DirectPlan {
  std::vector<std::int32_t> slot, send_order, send_position, send_offsets, key_offsets, key_slot,
      expert_counts, payload_offsets, payload_token, payload_row;
};

inline std::vector<std::int32_t> direct_slots(const RoutingCase& c) {
  std::vector<std::int64_t> ordinal = c.table.ordinal_base;
  std::vector<std::int32_t> slots;
  for (std::int32_t r = 0; r < c.routes.size(); ++r) {
    const std::int32_t e = c.experts[r];
    if (e == dropped_route) {
      slots.push_back(dropped_route);
      continue;
    }
    const std::int32_t first = c.table.offsets[e];
    const std::int32_t m = c.table.offsets[e + 1] - first;
    const std::int64_t o = ordinal[e]++;
    std::int64_t choice = 0;
    switch (c.table.rule) {
      case SelectionRule::cyclic: choice = o % m; break;
      case SelectionRule::quota:
        while (c.table.quota_end[first + choice] <= o) ++choice;
        break;
      case SelectionRule::hashed:
        choice = static_cast<std::int64_t>(
            route_hash(c.source, c.routes.token(RouteId{r}), c.routes.slot(RouteId{r})) %
            static_cast<std::uint64_t>(m));
        break;
    }
    slots.push_back(c.table.candidates[first + choice].value);
  }
  return slots;
}

// Both columns of dedup from their definition: the set of (peer, token) in order.
inline void direct_payload(const RoutingCase& c, DirectPlan& plan) {
  const auto peer_of = [&](std::int32_t row) {
    return c.group.peer_of(c.placement.rank_of(SlotId{plan.slot[plan.send_order[row]]})).value;
  };
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  for (std::int32_t row = 0; row < static_cast<std::int32_t>(plan.send_order.size()); ++row) {
    pairs.emplace_back(peer_of(row), plan.send_order[row] / c.routes.topk);
  }
  std::vector<std::pair<std::int32_t, std::int32_t>> distinct = pairs;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (std::int32_t peer = 0; peer <= c.group.size(); ++peer) {
    plan.payload_offsets.push_back(static_cast<std::int32_t>(
        std::lower_bound(distinct.begin(), distinct.end(), std::pair(peer, -1)) -
        distinct.begin()));
  }
  for (const auto& [peer, token] : distinct) plan.payload_token.push_back(token);
  for (const auto& pair : pairs) {
    const auto at = std::lower_bound(distinct.begin(), distinct.end(), pair) - distinct.begin();
    plan.payload_row.push_back(static_cast<std::int32_t>(at) - plan.payload_offsets[pair.first]);
  }
}

inline DirectPlan direct_plan(const RoutingCase& c) {
  DirectPlan plan;
  plan.slot = direct_slots(c);
  const auto key = [&](std::int32_t slot) {
    const SlotId q{slot};
    return std::tuple(c.group.peer_of(c.placement.rank_of(q)).value, c.placement.local_index(q));
  };
  for (std::int32_t r = 0; r < c.routes.size(); ++r) {
    if (plan.slot[r] != dropped_route) plan.send_order.push_back(r);
  }
  std::stable_sort(
      plan.send_order.begin(), plan.send_order.end(),
      [&](std::int32_t a, std::int32_t b) { return key(plan.slot[a]) < key(plan.slot[b]); });
  plan.send_position.assign(plan.slot.size(), dropped_route);
  for (std::size_t i = 0; i < plan.send_order.size(); ++i) {
    plan.send_position[plan.send_order[i]] = static_cast<std::int32_t>(i);
  }
  plan.key_slot.resize(c.placement.slots());
  std::iota(plan.key_slot.begin(), plan.key_slot.end(), 0);
  std::sort(plan.key_slot.begin(), plan.key_slot.end(),
            [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
  const auto rows_where = [&](auto&& predicate) {
    return static_cast<std::int32_t>(
        std::count_if(plan.send_order.begin(), plan.send_order.end(), predicate));
  };
  for (std::int32_t q : plan.key_slot) {
    plan.key_offsets.push_back(
        rows_where([&](std::int32_t r) { return key(plan.slot[r]) < key(q); }));
  }
  plan.key_offsets.push_back(static_cast<std::int32_t>(plan.send_order.size()));
  for (std::int32_t p = 0; p <= c.group.size(); ++p) {
    plan.send_offsets.push_back(
        rows_where([&](std::int32_t r) { return std::get<0>(key(plan.slot[r])) < p; }));
  }
  for (std::int32_t e = 0; e < c.placement.experts(); ++e) {
    plan.expert_counts.push_back(rows_where([&](std::int32_t r) { return c.experts[r] == e; }));
  }
  direct_payload(c, plan);
  return plan;
}

}  // namespace waybill::testing
