#include "waybill/selection.h"
#include "property/property.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "io/json_document.h"
#include "plan/row_division.h"
#include "support/fault.h"
#include "support/random_placement.h"

namespace waybill {
namespace {

using ::testing::ElementsAre;
using testing::fault;
using testing::random_placement;

constexpr std::array all_selectors{Selector::first, Selector::round_robin, Selector::least_load,
                                   Selector::locality, Selector::hash};

// What the rule of a table says, read route by route.
std::vector<SlotId> assign(const SelectionTable& table, const RoutesView& routes, Rank source) {
  std::vector<std::int64_t> ordinal = table.ordinal_base;
  std::vector<SlotId> slots;
  for (std::int32_t i = 0; i < routes.size(); ++i) {
    const RouteId r{i};
    if (routes.dropped(r)) {
      slots.emplace_back(-1);
      continue;
    }
    const std::size_t e = routes.expert(r).index();
    const auto begin = static_cast<std::size_t>(table.offsets[e]);
    const auto m = static_cast<std::uint64_t>(table.offsets[e + 1]) - begin;
    const std::int64_t n = ordinal[e]++;
    std::size_t c = 0;
    switch (table.rule) {
      case SelectionRule::cyclic: c = static_cast<std::uint64_t>(n) % m; break;
      case SelectionRule::hashed:
        c = route_hash(source, routes.token(r), routes.slot(r)) % m;
        break;
      case SelectionRule::quota:
        while (table.quota_end[begin + c] <= n) ++c;
        break;
    }
    slots.push_back(table.candidates[begin + c]);
  }
  return slots;
}

// Routes of every rank, and all ranks' counts.
struct RankRoutes {
  std::int32_t experts = 0;
  std::vector<Routes> routes;
  std::vector<std::int64_t> counts;  // [P, E]

  void add(Routes rank_routes) {
    const auto mine = count_experts(rank_routes.view(), experts);
    counts.insert(counts.end(), mine.begin(), mine.end());
    routes.push_back(std::move(rank_routes));
  }
  std::span<const std::int64_t> counts_for(Selector selector, std::size_t rank) const {
    if (needs_global_counts(selector)) return counts;
    const auto width = static_cast<std::size_t>(experts);
    return std::span(counts).subspan(rank * width, width);
  }
};

RankRoutes random_routes(std::int32_t experts, std::int32_t ranks, std::mt19937_64& rng) {
  const auto pick = [&](std::int32_t n) {
    return std::uniform_int_distribution<std::int32_t>(0, n - 1)(rng);
  };
  RankRoutes result;
  result.experts = experts;
  const bool skewed = pick(2) == 0;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    const std::int32_t tokens = pick(4) == 0 ? 0 : pick(24);
    const std::int32_t topk = 1 + pick(4);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens * topk));
    for (std::int32_t& id : ids) {
      id = pick(8) == 0 ? dropped_route : skewed ? pick(1 + pick(experts)) : pick(experts);
    }
    const std::vector<float> gates(ids.size(), 0.5F);
    result.add(Routes(tokens, topk, experts, ids, gates));
  }
  return result;
}

// Rows per rank when every rank follows its own table.
std::vector<std::int64_t> rank_loads(Selector selector, const Placement& placement,
                                     const Topology& topology, const RankRoutes& all) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(placement.ranks()), 0);
  for (std::size_t p = 0; p < all.routes.size(); ++p) {
    const Rank source{static_cast<std::int32_t>(p)};
    const SelectionTable table =
        select(selector, placement, topology, source, all.counts_for(selector, p));
    for (SlotId q : assign(table, all.routes[p].view(), source)) {
      if (q.value >= 0) ++loads[placement.rank_of(q).index()];
    }
  }
  return loads;
}

// The six slots of the reference text, and its eight routes with the slots that they were given.
struct Fixture {
  Placement placement =
      Placement::from_lists(PlacementVersion("placement-v17"), 4,
                            std::vector<std::vector<std::int32_t>>{{0}, {0, 1}, {1, 2}, {3}});
  Topology topology = Topology::uniform(4, 2);
  RankRoutes all;
  std::vector<std::vector<std::string>> slots;  // of each rank's routes

  Fixture() {
    all.experts = 4;
    const JsonDocument document =
        JsonDocument::read(std::string(WAYBILL_TEST_DATA) + "/conformance/routes.json");
    std::array<std::vector<std::int32_t>, 4> ids;
    slots.resize(4);
    for (const JsonValue route : document.root().at("routes").elements()) {
      const auto rank = static_cast<std::size_t>(route.at("source_rank").as_integer());
      ids[rank].push_back(static_cast<std::int32_t>(route.at("logical_expert").as_integer()));
      slots[rank].emplace_back(route.at("slot").as_string());
    }
    for (const auto& list : ids) {
      const std::vector<float> gates(list.size(), 0.5F);
      all.add(Routes(static_cast<std::int32_t>(list.size()) / 2, 2, 4, list, gates));
    }
  }
};

TEST(Selection, RoundRobinGivesTheFixturesAssignment) {
  const Fixture fixture;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const Rank source{static_cast<std::int32_t>(rank)};
    const SelectionTable table = select(Selector::round_robin, fixture.placement, fixture.topology,
                                        source, fixture.all.counts);
    EXPECT_EQ(table.scope, SelectionScope::rank_invariant);
    std::vector<std::string> names;
    for (SlotId q : assign(table, fixture.all.routes[rank].view(), source)) {
      names.push_back(fixture.placement.slot(q).name);
    }
    EXPECT_EQ(names, fixture.slots[rank]) << "rank " << rank;
  }
}

TEST(Selection, CountsOfTheFixture) {
  const Fixture fixture;
  const auto placement =
      JsonDocument::read(std::string(WAYBILL_TEST_DATA) + "/conformance/placement_v17.json");
  const JsonValue expected = placement.root().at("expected");
  std::vector<std::int64_t> totals(4, 0);
  for (std::size_t i = 0; i < fixture.all.counts.size(); ++i)
    totals[i % 4] += fixture.all.counts[i];
  EXPECT_EQ(totals, expected.at("logical_counts").as_integers());
  const auto loads =
      rank_loads(Selector::round_robin, fixture.placement, fixture.topology, fixture.all);
  for (const JsonValue count : expected.at("rank_counts").members()) {
    EXPECT_EQ(loads[std::stoul(std::string(count.key()))], count.as_integer());
  }
}

// Rank 3 can run nothing but its own expert, so seven rows are left for three ranks.
TEST(Selection, LeastLoadLevelsTheFixture) {
  const Fixture fixture;
  EXPECT_THAT(rank_loads(Selector::least_load, fixture.placement, fixture.topology, fixture.all),
              ElementsAre(2, 2, 3, 1));
}

TEST(Selection, LocalityTakesTheRankThenTheNodeThenAny) {
  // Expert 0 on all ranks; 1 on rank 1 and 3; 2 on rank 2 and 3.
  const Placement placement =
      Placement::from_lists(PlacementVersion("v"), 3,
                            std::vector<std::vector<std::int32_t>>{{0}, {0, 1}, {0, 2}, {0, 1, 2}});
  const Topology topology = Topology::uniform(4, 2);
  const std::vector<std::int64_t> counts(3, 1);
  const SelectionTable table = select(Selector::locality, placement, topology, Rank{0}, counts);
  EXPECT_EQ(table.scope, SelectionScope::source_local);
  EXPECT_THAT(table.offsets, ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(table.candidates, ElementsAre(SlotId{0}, SlotId{2}, SlotId{4}, SlotId{7}));
}

TEST(Selection, HashNeedsNoCountsAndFollowsTheRoutesIdentity) {
  const Fixture fixture;
  const SelectionTable table = select(Selector::hash, fixture.placement, fixture.topology, Rank{1},
                                      fixture.all.counts_for(Selector::hash, 1));
  EXPECT_EQ(table.rule, SelectionRule::hashed);
  EXPECT_NE(route_hash(Rank{0}, TokenRow{1}, RouteSlot{0}),
            route_hash(Rank{1}, TokenRow{0}, RouteSlot{0}));
}

TEST(Selection, NamesAreFoundAndOthersRefused) {
  for (Selector selector : all_selectors) {
    Selector found{};
    ASSERT_TRUE(find_selector(name(selector), found));
    EXPECT_EQ(found, selector);
  }
  Selector found{};
  EXPECT_FALSE(find_selector("queue_aware", found));
}

TEST(Selection, CountsOfAnotherShapeAreRefused) {
  const Fixture fixture;
  const auto code = [&](Selector selector, std::vector<std::int64_t> counts, Rank source) {
    return fault([&] { select(selector, fixture.placement, fixture.topology, source, counts); })
        .code();
  };
  EXPECT_EQ(code(Selector::first, std::vector<std::int64_t>(16, 0), Rank{0}), Code::ShapeMismatch);
  EXPECT_EQ(code(Selector::least_load, {1, 1, 1, 1}, Rank{0}), Code::ShapeMismatch);
  EXPECT_EQ(code(Selector::first, {1, 1, -1, 1}, Rank{0}), Code::InvalidValue);
  EXPECT_EQ(code(Selector::first, {1, 1, 1, 1}, Rank{4}), Code::InvalidValue);
  EXPECT_EQ(fault([&] {
              select(Selector::first, fixture.placement, Topology::uniform(2), Rank{0},
                     std::vector<std::int64_t>(4, 0));
            }).code(),
            Code::RankCountMismatch);
}

TEST(Selection, CountsWhoseSumOverflowsAreRefused) {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const Fixture fixture;
  for (const Selector selector : all_selectors) {
    const std::size_t ranks = needs_global_counts(selector) ? 4 : 1;
    std::vector<std::int64_t> counts(ranks * 4, 0);
    counts.front() = largest;
    EXPECT_NO_THROW(select(selector, fixture.placement, fixture.topology, Rank{0}, counts));
    counts.back() = 1;
    const Error error =
        fault([&] { select(selector, fixture.placement, fixture.topology, Rank{0}, counts); });
    EXPECT_EQ(error.code(), Code::InvalidValue);
    EXPECT_EQ(error.coordinate("expert"), "3");
    EXPECT_EQ(error.coordinate("rank"), std::to_string(ranks - 1));
  }
}

TEST(ExpertCounts, DroppedRoutesAreNotCounted) {
  const std::vector<std::int32_t> ids{0, 3, -1, 2, -1, -1, 1, -1};
  const Routes routes(4, 2, 4, ids, std::vector<float>(8, 0.5F));
  EXPECT_THAT(count_experts(routes.view(), 4), ElementsAre(1, 1, 1, 1));
}

TEST(ExpertCounts, NearlyAllTokensToTheSameExperts) {
  // One of 16 ranks: all but 10 of 2304 tokens choose experts 0 to 7.
  std::vector<std::int32_t> ids;
  for (std::int32_t token = 0; token < 2304; ++token) {
    for (std::int32_t j = 0; j < 8; ++j) ids.push_back(token < 10 ? 8 + j : j);
  }
  const RoutesView routes{2304, 8, ids, {}};
  const auto counts = count_experts(routes, 256);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), 2304 * 8);
  EXPECT_EQ(counts[7], 2294);
  EXPECT_EQ(counts[15], 10);
}

TEST(ExpertCounts, IdOutOfRangeNamesTokenAndRouteSlot) {
  for (std::int32_t id : {4, -2, 2147483647, -2147483647 - 1}) {
    const std::vector<std::int32_t> ids{0, 1, 2, id};
    const Error error = fault([&] { count_experts({2, 2, ids, {}}, 4); });
    EXPECT_EQ(error.code(), Code::ExpertIdOutOfRange);
    EXPECT_EQ(error.coordinate("token"), "1");
    EXPECT_EQ(error.coordinate("route_slot"), "1");
  }
}

// Every accepted route gets exactly one slot, one of its expert.
PROPERTY(SelectionProperty, EachAcceptedRouteGetsOneSlotOfItsExpert) {
  const auto ranks = property::draw(1, 9);
  const auto experts = property::draw(ranks, 33);
  std::mt19937_64 rng(property::draw_bits());
  const Placement placement = random_placement(experts, ranks, rng);
  const Topology topology = Topology::uniform(ranks, ranks % 2 == 0 ? 2 : 1);
  const RankRoutes all = random_routes(experts, ranks, rng);
  for (Selector selector : all_selectors) {
    for (std::size_t p = 0; p < all.routes.size(); ++p) {
      const Rank source{static_cast<std::int32_t>(p)};
      const RoutesView routes = all.routes[p].view();
      const SelectionTable table =
          select(selector, placement, topology, source, all.counts_for(selector, p));
      const std::vector<SlotId> slots = assign(table, routes, source);
      for (std::int32_t i = 0; i < routes.size(); ++i) {
        const RouteId r{i};
        if (routes.dropped(r)) continue;
        check_cardinality(r, routes.expert(r), std::span(&slots[r.index()], 1), placement);
      }
    }
  }
}

// Direct evaluation: one pass over all routes in global semantic order, each expert taking turns.
PROPERTY(SelectionProperty, RoundRobinTakesTurnsOverAllRanks) {
  const auto ranks = property::draw(1, 9);
  const auto experts = property::draw(ranks, 33);
  std::mt19937_64 rng(property::draw_bits());
  const Placement placement = random_placement(experts, ranks, rng);
  const RankRoutes all = random_routes(experts, ranks, rng);
  std::map<ExpertId, std::size_t> turn;
  for (std::size_t p = 0; p < all.routes.size(); ++p) {
    const Rank source{static_cast<std::int32_t>(p)};
    const SelectionTable table =
        select(Selector::round_robin, placement, Topology::uniform(ranks), source, all.counts);
    const std::vector<SlotId> slots = assign(table, all.routes[p].view(), source);
    for (std::size_t r = 0; r < slots.size(); ++r) {
      const ExpertId expert{all.routes[p].view().experts[r]};
      if (expert.value == dropped_route) continue;
      const auto replicas = placement.replicas(expert);
      HOLDS(slots[r] == replicas[turn[expert]++ % replicas.size()]);
    }
  }
}

// No division has a lower largest load than the mean of any set of ranks over the rows that can run
// nowhere else; the best division reaches the largest such bound.
std::int64_t lowest_largest_load(const Placement& placement, std::span<const std::int64_t> rows) {
  std::int64_t bound = 0;
  const auto ranks = static_cast<std::uint32_t>(placement.ranks());
  for (std::uint32_t set = 1; set < (1U << ranks); ++set) {
    std::int64_t confined = 0;
    for (std::size_t e = 0; e < rows.size(); ++e) {
      const auto replicas = placement.replicas(ExpertId{static_cast<std::int32_t>(e)});
      const bool inside = std::ranges::all_of(replicas, [&](SlotId q) {
        return (set >> static_cast<std::uint32_t>(placement.rank_of(q).value) & 1U) != 0;
      });
      if (inside) confined += rows[e];
    }
    const std::int64_t size = std::popcount(set);
    bound = std::max(bound, confined / size + (confined % size > 0 ? 1 : 0));
  }
  return bound;
}

PROPERTY(SelectionProperty, LeastLoadKeepsTheFullestRankLowest) {
  const auto ranks = property::draw(1, 9);
  const auto experts = property::draw(ranks, 33);
  std::mt19937_64 rng(property::draw_bits());
  const Placement placement = random_placement(experts, ranks, rng);
  const Topology topology = Topology::uniform(ranks);
  const RankRoutes all = random_routes(experts, ranks, rng);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(experts), 0);
  for (std::size_t i = 0; i < all.counts.size(); ++i) rows[i % rows.size()] += all.counts[i];

  const auto largest = [&](Selector selector) {
    return std::ranges::max(rank_loads(selector, placement, topology, all));
  };
  HOLDS(largest(Selector::least_load) == lowest_largest_load(placement, rows));
  HOLDS(largest(Selector::least_load) <= largest(Selector::first));
}

PROPERTY(RowDivisionProperty, HugeRowsAreDividedAsWellAsFew) {
  const auto ranks = property::draw(1, 7);
  const auto experts = property::draw(ranks, 17);
  std::mt19937_64 rng(property::draw_bits());
  const Placement placement = random_placement(experts, ranks, rng);
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> rows(static_cast<std::size_t>(experts));
  for (std::int64_t& row : rows) {
    const bool all = property::draw(0, 4) == 0;
    row = all ? left - property::draw(std::int64_t{0}, std::min<std::int64_t>(left, 2) + 1)
              : std::uniform_int_distribution<std::int64_t>(0, left / 2)(rng);
    left -= row;
  }

  const std::vector<std::int64_t> shares = divide_rows(placement, rows);
  std::vector<std::int64_t> loads(static_cast<std::size_t>(ranks), 0);
  std::size_t next = 0;
  for (std::int32_t e = 0; e < experts; ++e) {
    std::int64_t divided = 0;
    for (SlotId q : placement.replicas(ExpertId{e})) {
      HOLDS(shares[next] >= 0);
      divided += shares[next];
      loads[placement.rank_of(q).index()] += shares[next++];
    }
    HOLDS(divided == rows[static_cast<std::size_t>(e)]);
  }
  HOLDS(std::ranges::max(loads) == lowest_largest_load(placement, rows));
}

// Filling expert after expert gets stuck here: rows must move on from a rank to make room.
TEST(RowDivision, MovesRowsAlongAChainOfReplicas) {
  // Expert 0 (10 rows) on ranks 0 and 1; experts 1 and 2 (9 rows each) on ranks 1 and 2.
  const Placement placement = Placement::from_lists(
      PlacementVersion("v"), 3, std::vector<std::vector<std::int32_t>>{{0}, {0, 1, 2}, {1, 2}});
  const std::vector<std::int64_t> shares =
      divide_rows(placement, std::vector<std::int64_t>{10, 9, 9});
  EXPECT_EQ(shares[0] + shares[1], 10);
  EXPECT_LE(std::max({shares[0], shares[1] + shares[2] + shares[4], shares[3] + shares[5]}), 10);
}

TEST(RowDivision, ARankWhoseLoadTimesTheOthersOverflowsGetsNothing) {
  const Placement placement = Placement::from_lists(
      PlacementVersion("v"), 2, std::vector<std::vector<std::int32_t>>{{1}, {1}, {1}, {0, 1}});
  const auto shares = divide_rows(placement, std::vector<std::int64_t>{std::int64_t{1} << 62, 3});
  EXPECT_THAT(shares, ElementsAre(std::int64_t{1} << 62, 1, 1, 1, 0));
}

TEST(RowDivision, TwoCopiesOnOneRankAreOneCandidate) {
  const Placement placement = Placement::from_lists(
      PlacementVersion("v"), 2, std::vector<std::vector<std::int32_t>>{{0, 0, 1}, {1}});
  const auto shares = divide_rows(placement, std::vector<std::int64_t>{6, 10});
  EXPECT_THAT(shares, ElementsAre(6, 0, 2, 8));
}

}  // namespace
}  // namespace waybill
