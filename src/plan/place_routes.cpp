// Chooses each route's slot, by one of the selection rules or as assigned, and places its row.
#include <algorithm>
#include <array>

#include "plan/host_plan_builder.h"

namespace waybill {
namespace {

// Routes between choosing rows and scattering them; their columns stay in the first-level cache.
constexpr std::int32_t kBlock = 1024;

// Bin 0 counts dropped routes, bin e+1 expert e, the last one ids outside [0, E).
std::uint32_t bin_of(std::int32_t expert, std::uint32_t last) {
  return std::min(static_cast<std::uint32_t>(expert) + 1U, last);
}

void count_experts(std::span<const std::int32_t> ids, std::span<std::int32_t> bins) {
  const auto last = static_cast<std::uint32_t>(bins.size() - 1);
  for (const std::int32_t id : ids) ++bins[bin_of(id, last)];
}

// False when no rule can tell one candidate from another.
bool offers_choice(const SelectionTable& table) {
  for (std::size_t e = 0; e + 1 < table.offsets.size(); ++e) {
    if (table.offsets[e + 1] - table.offsets[e] > 1) return true;
  }
  return false;
}

}  // namespace

template <class Choose>
void HostPlanBuilder::place(const Choose& choose) {
  const std::int32_t* expert_of = routes_.experts.data();
  std::int32_t* slot_of = plan_.slot_.data();
  place_rows([choose, expert_of, slot_of](const Chunk& c, std::int32_t route) {
    const std::int32_t expert = expert_of[route];
    return slot_of[route] = expert < 0 ? dropped_route : choose(c, expert);
  });
}

void HostPlanBuilder::place_assigned() {
  const std::int32_t* slot_of = plan_.slot_.data();
  place_rows([slot_of](const Chunk&, std::int32_t route) { return slot_of[route]; });
}

// Rows are scattered a block behind the counters: a store whose address depends on a counter holds
// up the loads of the counters after it. Meanwhile their cache lines are fetched.
template <class SlotOf>
void HostPlanBuilder::place_rows(const SlotOf& slot_of) {
  std::int32_t* row_of = plan_.send_position_.data();
  std::int32_t* order = plan_.send_order_.data();
  for_each_chunk([&slot_of, row_of, order](const Chunk& c) {
    for (std::int32_t first = c.first_route, end = first; first < c.end_route; first = end) {
      end = first + std::min(c.end_route - first, kBlock);
      for (std::int32_t route = first; route < end; ++route) {
        const std::int32_t slot = slot_of(c, route);
        if (slot < 0) {
          row_of[route] = dropped_route;
        } else {
          row_of[route] = c.next[slot]++;
          __builtin_prefetch(order + row_of[route], 1);
        }
      }
      for (std::int32_t route = first; route < end; ++route) {
        if (row_of[route] >= 0) order[row_of[route]] = route;
      }
    }
  });
  if (options_.dedup) build_payload();
}

void HostPlanBuilder::build(const SelectionTable& table) {
  check_table(table);
  const bool choice = offers_choice(table);
  if (choice && table.rule == SelectionRule::hashed) {
    build_by_hash(table);
    return;
  }
  take_scratch(table.candidates.size());
  for_each_chunk([this](const Chunk& c) {
    count_experts(routes_.experts.subspan(c.first_route, c.end_route - c.first_route),
                  {c.bins, bins()});
  });
  if (refused() > 0) throw_first_bad_id();
  sum_expert_counts();
  check_cardinality(table);
  if (!choice) {
    place_on_only_candidates(table);
  } else if (table.rule == SelectionRule::quota) {
    place_by_quota(table);
  } else {
    place_in_turn(table);
  }
}

void HostPlanBuilder::place_on_only_candidates(const SelectionTable& table) {
  give_only_candidates(table);
  scan();
  const SlotId* slot_of = table.candidates.data();
  place([slot_of](const Chunk& c, std::int32_t expert) {
    return slot_of[c.candidate[expert]].value;
  });
}

void HostPlanBuilder::place_in_turn(const SelectionTable& table) {
  give_in_turn(table);
  scan();
  const SlotId* slot_of = table.candidates.data();
  place([slot_of, turn_after = turn_after()](const Chunk& c, std::int32_t expert) {
    const std::int32_t candidate = c.candidate[expert];
    c.candidate[expert] = turn_after[candidate];
    return slot_of[candidate].value;
  });
}

void HostPlanBuilder::place_by_quota(const SelectionTable& table) {
  give_by_quota(table);
  scan();
  const SlotId* slot_of = table.candidates.data();
  place([slot_of](const Chunk& c, std::int32_t expert) {
    std::int32_t candidate = c.candidate[expert];
    while (c.share[candidate] == 0) ++candidate;
    --c.share[candidate];
    c.candidate[expert] = candidate;
    return slot_of[candidate].value;
  });
}

// Whether an expert has one candidate can't be foreseen, so the routes that must be hashed are put
// on a list first, without a branch.
void HostPlanBuilder::build_by_hash(const SelectionTable& table) {
  constexpr std::int32_t several = dropped_route - 1;
  take_scratch(bins());
  std::int32_t* only_slot = by_bin();
  std::fill_n(only_slot, bins(), dropped_route);
  for (std::int32_t e = 0; e < experts_; ++e) {
    const std::int32_t first = table.offsets[e], candidates = table.offsets[e + 1] - first;
    if (candidates == 1) only_slot[e + 1] = table.candidates[first].value;
    if (candidates > 1) only_slot[e + 1] = several;
  }
  for_each_chunk([this, &table, only_slot](const Chunk& c) {
    const auto last = static_cast<std::uint32_t>(bins() - 1);
    std::array<std::int32_t, kBlock> hashed;
    for (std::int32_t first = c.first_route, end = first; first < c.end_route; first = end) {
      end = first + std::min(c.end_route - first, kBlock);
      std::size_t listed = 0;
      for (std::int32_t route = first; route < end; ++route) {
        const std::uint32_t bin = bin_of(routes_.experts[route], last);
        ++c.bins[bin];
        plan_.slot_[route] = only_slot[bin];
        hashed[listed] = route;
        listed += only_slot[bin] == several;
      }
      for (const std::int32_t route : std::span(hashed).first(listed)) {
        const std::int32_t expert = routes_.experts[route];
        const auto begin = static_cast<std::uint32_t>(table.offsets[expert]);
        const std::uint32_t candidates =
            static_cast<std::uint32_t>(table.offsets[expert + 1]) - begin;
        const std::uint64_t hash =
            route_hash(source_, routes_.token(RouteId{route}), routes_.slot(RouteId{route}));
        const std::int32_t slot = table.candidates[begin + hash % candidates].value;
        plan_.slot_[route] = slot;
        ++c.next[slot];
      }
    }
    for (std::int32_t e = 0; e < experts_; ++e) {
      if (only_slot[e + 1] >= 0) c.next[only_slot[e + 1]] += c.bins[e + 1];
    }
  });
  if (refused() > 0) throw_first_bad_id();
  sum_expert_counts();
  check_cardinality(table);
  scan();
  place_assigned();
}

void HostPlanBuilder::build(std::span<const std::int32_t> assigned_slots) {
  check_assignment_size(assigned_slots);
  take_scratch(0);
  std::int32_t* expert_of = by_slot();
  for (std::int32_t q = 0; q < slots_; ++q) expert_of[q] = placement_.expert_of(SlotId{q}).value;
  for_each_chunk([this, assigned_slots, expert_of](const Chunk& c) {
    const auto last = static_cast<std::uint32_t>(bins() - 1);
    for (std::int32_t route = c.first_route; route < c.end_route; ++route) {
      const std::int32_t expert = routes_.experts[route];
      const std::int32_t slot = assigned_slots[route];
      const bool is_slot = slot >= 0 && slot < slots_;
      const bool legal =
          is_slot ? expert_of[slot] == expert : slot == dropped_route && expert == dropped_route;
      ++c.bins[legal ? bin_of(expert, last) : last];
      if (legal && is_slot) ++c.next[slot];
      plan_.slot_[route] = slot;
    }
  });
  if (refused() > 0) throw_first_refused(assigned_slots);
  sum_expert_counts();
  scan();
  place_assigned();
}

}  // namespace waybill
