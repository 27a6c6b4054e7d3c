#include "plan/host_plan_builder.h"

#include <algorithm>
#include <utility>

namespace waybill {
namespace {

// Sizes of working columns are multiples of a cache line.
std::size_t padded(std::size_t entries) { return (entries + 15) / 16 * 16; }

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

}  // namespace waybill
