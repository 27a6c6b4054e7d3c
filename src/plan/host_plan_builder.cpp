#include "plan/host_plan_builder.h"

#include <algorithm>
#include <utility>

namespace waybill {
namespace {

// Routes between choosing rows and scattering them; their columns stay in the first-level cache.
constexpr std::int32_t kBlock = 1024;

// Sizes of working columns are multiples of a cache line.
std::size_t padded(std::size_t entries) { return (entries + 15) / 16 * 16; }

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

std::int32_t chunk_count(const RoutesView& routes, const PlanOptions& options) {
  if (options.pool == nullptr) return 1;
  const std::int32_t worth = routes.size() / std::max(options.routes_per_thread, 1);
  return std::clamp(std::min(options.pool->threads(), worth), 1, std::max(routes.tokens, 1));
}

}  // namespace

HostPlanBuilder::HostPlanBuilder(HostPlan& plan, const RoutesView& routes,
                                 const Placement& placement, const ProcessGroup& group, Rank source,
                                 const PlanOptions& options)
    : plan_(plan),
      routes_(routes),
      placement_(placement),
      group_(group),
      source_(source),
      options_(options),
      experts_(placement.experts()),
      slots_(placement.slots()),
      peers_(group.size()) {
  check_shape();
  chunks_ = chunk_count(routes, options);
  plan_.tokens_ = routes.tokens;
  plan_.topk_ = routes.topk;
  plan_.experts_ = experts_;
  plan_.peers_ = peers_;
  plan_.dedup_ = options.dedup;
  plan_.slot_.resize(routes.size());
  plan_.send_position_.resize(routes.size());
  order_keys();
}

void HostPlanBuilder::order_keys() {
  plan_.key_slot_.resize(slots_);
  plan_.peer_key_offsets_.resize(static_cast<std::size_t>(peers_) + 1);
  std::int32_t key = 0;
  for (std::int32_t peer = 0; peer < peers_; ++peer) {
    plan_.peer_key_offsets_[peer] = key;
    const Rank rank = group_.rank_of(PeerSlot{peer});
    if (rank.value >= placement_.ranks()) continue;
    for (const SlotId slot : placement_.slots_on(rank)) plan_.key_slot_[key++] = slot.value;
  }
  plan_.peer_key_offsets_[peers_] = key;
  if (key != slots_) throw_first_slot_outside_group();
}

void HostPlanBuilder::take_scratch(std::size_t candidates) {
  const std::size_t shared = padded(slots_) + padded(candidates);
  chunk_entries_ =
      padded(bins()) + padded(slots_) + padded(experts_) + padded(candidates) + 2 * padded(peers_);
  plan_.scratch_.resize(shared + chunks_ * chunk_entries_);
  std::int32_t* entry = plan_.scratch_.data() + shared;
  const auto take = [&entry](std::size_t entries) {
    return std::exchange(entry, entry + padded(entries));
  };
  chunk0_.bins = take(bins());
  chunk0_.next = take(slots_);
  chunk0_.candidate = take(experts_);
  chunk0_.share = take(candidates);
  chunk0_.peer_next = take(peers_);
  chunk0_.last_token = take(peers_);
  for (std::int32_t i = 0; i < chunks_; ++i) {
    std::fill_n(in_chunk(chunk0_.bins, i), bins(), 0);
    std::fill_n(in_chunk(chunk0_.next, i), slots_, 0);
  }
}

std::int32_t* HostPlanBuilder::by_slot() { return plan_.scratch_.data(); }

std::int32_t* HostPlanBuilder::turn_after() { return by_slot() + padded(slots_); }

HostPlanBuilder::Chunk HostPlanBuilder::chunk(std::int32_t index) {
  const auto cut = [this](std::int32_t i) {
    return static_cast<std::int32_t>(std::int64_t{routes_.tokens} * i / chunks_);
  };
  const std::int32_t first = cut(index), end = cut(index + 1);
  return {first,
          end,
          first * routes_.topk,
          end * routes_.topk,
          in_chunk(chunk0_.bins, index),
          in_chunk(chunk0_.next, index),
          in_chunk(chunk0_.candidate, index),
          in_chunk(chunk0_.share, index),
          in_chunk(chunk0_.peer_next, index),
          in_chunk(chunk0_.last_token, index)};
}

std::int32_t HostPlanBuilder::refused() {
  std::int32_t routes = 0;
  for (std::int32_t i = 0; i < chunks_; ++i) routes += in_chunk(chunk0_.bins, i)[bins() - 1];
  return routes;
}

void HostPlanBuilder::sum_expert_counts() {
  plan_.expert_counts_.resize(experts_);
  std::fill(plan_.expert_counts_.begin(), plan_.expert_counts_.end(), 0);
  for (std::int32_t i = 0; i < chunks_; ++i) {
    const std::int32_t* counts = in_chunk(chunk0_.bins, i) + 1;
    for (std::int32_t e = 0; e < experts_; ++e) plan_.expert_counts_[e] += counts[e];
  }
}

void HostPlanBuilder::give_only_candidates(const SelectionTable& table) {
  for (std::int32_t i = 0; i < chunks_; ++i) {
    const Chunk c = chunk(i);
    for (std::int32_t e = 0; e < experts_; ++e) {
      if (table.offsets[e] == table.offsets[e + 1]) continue;
      c.candidate[e] = table.offsets[e];
      c.next[table.candidates[table.offsets[e]].index()] += c.bins[e + 1];
    }
  }
}

void HostPlanBuilder::give_in_turn(const SelectionTable& table) {
  for (std::int32_t e = 0; e < experts_; ++e) {
    const std::int32_t first = table.offsets[e];
    const std::int32_t candidates = table.offsets[e + 1] - first;
    for (std::int32_t j = 0; j < candidates; ++j) {
      turn_after()[first + j] = first + (j + 1 == candidates ? 0 : j + 1);
    }
    std::int64_t ordinal = table.ordinal_base[e];
    for (std::int32_t i = 0; i < chunks_ && candidates > 0; ++i) {
      const std::int32_t routes = in_chunk(chunk0_.bins, i)[e + 1];
      std::int32_t candidate = first;
      if (candidates > 1) candidate += static_cast<std::int32_t>(ordinal % candidates);
      in_chunk(chunk0_.candidate, i)[e] = candidate;
      for (std::int32_t j = 0; j < candidates && j < routes; ++j) {
        in_chunk(chunk0_.next, i)[table.candidates[candidate].index()] +=
            candidates == 1 ? routes : (routes - j + candidates - 1) / candidates;
        candidate = turn_after()[candidate];
      }
      ordinal += routes;
    }
  }
}

void HostPlanBuilder::give_by_quota(const SelectionTable& table) {
  for (std::int32_t e = 0; e < experts_; ++e) {
    std::int64_t ordinal = table.ordinal_base[e];
    for (std::int32_t i = 0; i < chunks_; ++i) {
      const std::int64_t end = ordinal + in_chunk(chunk0_.bins, i)[e + 1];
      in_chunk(chunk0_.candidate, i)[e] = table.offsets[e];
      for (std::int32_t j = table.offsets[e]; j < table.offsets[e + 1]; ++j) {
        const std::int64_t stop = std::clamp(table.quota_end[j], ordinal, end);
        const auto share = static_cast<std::int32_t>(stop - ordinal);
        in_chunk(chunk0_.share, i)[j] = share;
        in_chunk(chunk0_.next, i)[table.candidates[j].index()] += share;
        ordinal = stop;
      }
    }
  }
}

void HostPlanBuilder::scan() {
  plan_.key_offsets_.resize(static_cast<std::size_t>(slots_) + 1);
  plan_.slot_counts_.resize(slots_);
  std::int32_t row = 0;
  for (std::int32_t key = 0; key < slots_; ++key) {
    plan_.key_offsets_[key] = row;
    for (std::int32_t i = 0; i < chunks_; ++i) {
      row += std::exchange(in_chunk(chunk0_.next, i)[plan_.key_slot_[key]], row);
    }
    plan_.slot_counts_[key] = row - plan_.key_offsets_[key];
  }
  plan_.key_offsets_[slots_] = row;
  plan_.send_offsets_.resize(static_cast<std::size_t>(peers_) + 1);
  for (std::int32_t peer = 0; peer <= peers_; ++peer) {
    plan_.send_offsets_[peer] = plan_.key_offsets_[plan_.peer_key_offsets_[peer]];
  }
  plan_.send_order_.resize(row);
}

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
// up the loads of the counters after it.
template <class SlotOf>
void HostPlanBuilder::place_rows(const SlotOf& slot_of) {
  std::int32_t* row_of = plan_.send_position_.data();
  std::int32_t* order = plan_.send_order_.data();
  for_each_chunk([&slot_of, row_of, order](const Chunk& c) {
    for (std::int32_t first = c.first_route; first < c.end_route; first += kBlock) {
      const std::int32_t end = first + std::min(c.end_route - first, kBlock);
      for (std::int32_t route = first; route < end; ++route) {
        const std::int32_t slot = slot_of(c, route);
        row_of[route] = slot < 0 ? dropped_route : c.next[slot]++;
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

void HostPlanBuilder::build_by_hash(const SelectionTable& table) {
  take_scratch(0);
  for_each_chunk([this, &table](const Chunk& c) {
    const auto last = static_cast<std::uint32_t>(bins() - 1);
    std::int32_t route = c.first_route;
    for (std::int32_t token = c.first_token; token < c.end_token; ++token) {
      for (std::int32_t k = 0; k < routes_.topk; ++k, ++route) {
        const std::int32_t expert = routes_.experts[route];
        const std::uint32_t bin = bin_of(expert, last);
        ++c.bins[bin];
        std::int32_t slot = dropped_route;
        if (bin != 0 && bin != last) {
          const std::int32_t first = table.offsets[expert];
          const std::int32_t candidates = table.offsets[expert + 1] - first;
          if (candidates > 0) {
            const std::uint64_t hash =
                candidates == 1 ? 0 : route_hash(source_, TokenRow{token}, RouteSlot{k});
            slot = table.candidates[first + hash % candidates].value;
            ++c.next[slot];
          }
        }
        plan_.slot_[route] = slot;
      }
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
