#include "waybill/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>

#include "plan/row_division.h"
#include "waybill/error.h"

namespace waybill {
namespace {

struct SelectorRow {
  Selector selector;
  std::string_view name;
  bool needs_global_counts;
};
constexpr std::array selectors{
    SelectorRow{Selector::first, "first", false},
    SelectorRow{Selector::round_robin, "round_robin", true},
    SelectorRow{Selector::least_load, "least_load", true},
    SelectorRow{Selector::locality, "locality", false},
    SelectorRow{Selector::hash, "hash", false},
};

const SelectorRow& row_of(Selector selector) {
  return *std::ranges::find(selectors, selector, &SelectorRow::selector);
}

void check_counts(Selector selector, const Placement& placement, Rank source,
                  std::span<const std::int64_t> counts) {
  const bool global = needs_global_counts(selector);
  const std::size_t rows = global ? static_cast<std::size_t>(placement.ranks()) : 1;
  const std::size_t experts = static_cast<std::size_t>(placement.experts());
  if (counts.size() != rows * experts) {
    throw Error(Code::ShapeMismatch)
        .at("field", "counts")
        .at("selector", name(selector))
        .expected(fmt::format("[{}, {}]", rows, experts))
        .found(fmt::format("{} values", counts.size()));
  }
  // What a rank or an expert has is at most the total, so no sum of the selectors overflows.
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0 || counts[i] > left) {
      throw Error(Code::InvalidValue)
          .at("field", "counts")
          .at("rank", global ? i / experts : source.index())
          .at("expert", i % experts)
          .expected(counts[i] < 0 ? "at least 0" : "counts that add up to at most 2^63 - 1")
          .found(counts[i]);
    }
    left -= counts[i];
  }
  if (source.value < 0 || source.value >= placement.ranks()) {
    throw Error(Code::InvalidValue)
        .at("field", "source")
        .expected(fmt::format("a rank in [0, {})", placement.ranks()))
        .found(source);
  }
}

// A table whose candidates of each expert are those that `keep` leaves of its replicas.
template <class Keep>
SelectionTable table_of(const Placement& placement, SelectionScope scope, SelectionRule rule,
                        Keep keep) {
  SelectionTable table;
  table.scope = scope;
  table.rule = rule;
  table.ordinal_base.assign(static_cast<std::size_t>(placement.experts()), 0);
  table.offsets.reserve(static_cast<std::size_t>(placement.experts()) + 1);
  table.candidates.reserve(static_cast<std::size_t>(placement.slots()));
  table.offsets.push_back(0);
  for (std::int32_t e = 0; e < placement.experts(); ++e) {
    keep(placement.replicas(ExpertId{e}), table.candidates);
    table.offsets.push_back(static_cast<std::int32_t>(table.candidates.size()));
  }
  return table;
}

void keep_all(std::span<const SlotId> replicas, std::vector<SlotId>& candidates) {
  candidates.insert(candidates.end(), replicas.begin(), replicas.end());
}

// Routes of each expert on the first `ranks` ranks of counts [P, E].
std::vector<std::int64_t> sum_over_ranks(std::span<const std::int64_t> counts, std::size_t experts,
                                         std::size_t ranks) {
  std::vector<std::int64_t> sums(experts, 0);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::ranges::transform(sums, counts.subspan(rank * experts, experts), sums.begin(),
                           std::plus<>());
  }
  return sums;
}

SelectionTable select_first(const Placement& placement) {
  return table_of(placement, SelectionScope::rank_invariant, SelectionRule::cyclic,
                  [](std::span<const SlotId> replicas, std::vector<SlotId>& candidates) {
                    candidates.push_back(replicas.front());
                  });
}

SelectionTable select_round_robin(const Placement& placement, Rank source,
                                  std::span<const std::int64_t> counts) {
  SelectionTable table =
      table_of(placement, SelectionScope::rank_invariant, SelectionRule::cyclic, keep_all);
  // In global semantic order the routes of lower ranks come first.
  table.ordinal_base = sum_over_ranks(counts, table.ordinal_base.size(), source.index());
  return table;
}

SelectionTable select_least_load(const Placement& placement, Rank source,
                                 std::span<const std::int64_t> counts) {
  SelectionTable table =
      table_of(placement, SelectionScope::rank_invariant, SelectionRule::quota, keep_all);

  const auto experts = static_cast<std::size_t>(placement.experts());
  table.ordinal_base = sum_over_ranks(counts, experts, source.index());
  table.quota_end =
      divide_rows(placement, sum_over_ranks(counts, experts, counts.size() / experts));
  for (std::size_t e = 0; e < experts; ++e) {
    const auto begin = table.quota_end.begin() + table.offsets[e];
    const auto end = table.quota_end.begin() + table.offsets[e + 1];
    std::partial_sum(begin, end, begin);
  }
  return table;
}

// Sources start the turn at different candidates, so that few routes a rank don't all meet on the
// first replica.
SelectionTable select_locality(const Placement& placement, const Topology& topology, Rank source) {
  const auto same_rank = [&](SlotId q) { return placement.rank_of(q) == source; };
  const auto same_node = [&](SlotId q) {
    return topology.node_of(placement.rank_of(q)) == topology.node_of(source);
  };
  SelectionTable table =
      table_of(placement, SelectionScope::source_local, SelectionRule::cyclic,
               [&](std::span<const SlotId> replicas, std::vector<SlotId>& candidates) {
                 const std::size_t before = candidates.size();
                 std::ranges::copy_if(replicas, std::back_inserter(candidates), same_rank);
                 if (candidates.size() != before) return;
                 std::ranges::copy_if(replicas, std::back_inserter(candidates), same_node);
                 if (candidates.size() != before) return;
                 keep_all(replicas, candidates);
               });
  std::ranges::fill(table.ordinal_base, source.value);
  return table;
}

}  // namespace

std::string_view name(Selector selector) { return row_of(selector).name; }

bool find_selector(std::string_view name, Selector& selector) {
  const auto found = std::ranges::find(selectors, name, &SelectorRow::name);
  if (found == selectors.end()) return false;
  selector = found->selector;
  return true;
}

bool needs_global_counts(Selector selector) { return row_of(selector).needs_global_counts; }

SelectionTable select(Selector selector, const Placement& placement, const Topology& topology,
                      Rank source, std::span<const std::int64_t> counts) {
  check_counts(selector, placement, source, counts);
  if (topology.ranks() < placement.ranks()) {
    throw Error(Code::RankCountMismatch)
        .at("field", "topology")
        .expected(fmt::format("at least {} ranks", placement.ranks()))
        .found(topology.ranks());
  }
  switch (selector) {
    case Selector::first: return select_first(placement);
    case Selector::round_robin: return select_round_robin(placement, source, counts);
    case Selector::least_load: return select_least_load(placement, source, counts);
    case Selector::locality: return select_locality(placement, topology, source);
    case Selector::hash:
      return table_of(placement, SelectionScope::source_local, SelectionRule::hashed, keep_all);
  }
  return {};
}

}  // namespace waybill
