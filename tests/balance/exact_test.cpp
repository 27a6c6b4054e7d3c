// The proven optimum, and how far the other solvers are from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "balance/plan_rules.h"
#include "balance/recorded_loads.h"
#include "support/fault.h"
#include "waybill/balance.h"

namespace waybill {
namespace {

using testing::broken_rule;
using testing::fault;
using ::testing::HasSubstr;
using testing::load_matrix;

LayerPlan planned(const std::vector<double>& load, const Cluster& cluster, BalanceOptions options) {
  const auto experts = static_cast<std::int32_t>(load.size());
  return balance(load_matrix(load, experts), cluster, {}, options).layers[0];
}

#ifdef WAYBILL_CBC

// Enough on any machine for the proofs that these tests ask for.
constexpr double kSeconds = 600;

double ratio_of(const std::vector<double>& load, const Cluster& cluster, Solver solver) {
  return planned(load, cluster, {.solver = solver}).after.balance_ratio;
}

std::vector<double> drawn_load(std::mt19937& rng, std::int32_t experts) {
  std::vector<double> load;
  for (std::int32_t e = 0; e < experts; ++e) load.push_back(1 + static_cast<double>(rng() % 1000));
  return load;
}

// The least ratio of all placements: every choice of different experts for every rank in turn.
double least_ratio(const std::vector<double>& load, const Cluster& cluster) {
  const auto experts = static_cast<std::int32_t>(load.size());
  SlotLists lists(cluster.slots.size());
  double least = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t, std::int32_t)> seat = [&](std::size_t rank,
                                                                  std::int32_t next) {
    if (rank == lists.size()) {
      if (broken_rule(lists, cluster, experts).empty()) {
        least = std::min(least, balance_ratio(load, lists, cluster.speed));
      }
      return;
    }
    if (lists[rank].size() == static_cast<std::size_t>(cluster.slots[rank])) {
      seat(rank + 1, 0);
      return;
    }
    for (std::int32_t e = next; e < experts; ++e) {
      lists[rank].push_back(e);
      seat(rank, e + 1);
      lists[rank].pop_back();
    }
  };
  seat(0, 0);
  return least;
}

TEST(Exact, EqualsTheBestOfAllPlacements) {
  std::mt19937 rng(11);
  for (int round = 0; round < 12; ++round) {
    const std::int32_t experts = 4 + round % 3, ranks = 2 + round % 2;
    Cluster cluster = even_cluster(experts, ranks, 1, experts + 1 + round % 3);
    if (round % 4 == 3) cluster.speed.assign(static_cast<std::size_t>(ranks), 1);
    if (round % 4 == 3) cluster.speed[0] = 2;
    const auto load = drawn_load(rng, experts);
    const LayerPlan plan =
        planned(load, cluster, {.solver = Solver::exact, .exact_seconds = kSeconds});
    EXPECT_EQ(broken_rule(plan.slots, cluster, experts), "");
    EXPECT_EQ(plan.proof->status, ProofStatus::optimal);
    EXPECT_NEAR(plan.after.balance_ratio, least_ratio(load, cluster), 2e-6) << round;
    EXPECT_LE(plan.proof->bound, plan.after.balance_ratio);
  }
}

// 8 experts in 12 slots on 4 ranks: how far the other solvers are from the optimum, on average.
TEST(Exact, OtherSolversStayWithinTheirStatedDistance) {
  std::mt19937 rng(5);
  const Cluster cluster = even_cluster(8, 4, 1, 12);
  double waybill_over = 0, eplb_over = 0;
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    const auto load = drawn_load(rng, 8);
    const LayerPlan exact =
        planned(load, cluster, {.solver = Solver::exact, .exact_seconds = kSeconds});
    ASSERT_EQ(exact.proof->status, ProofStatus::optimal);
    const double best = exact.after.balance_ratio;
    const double ours = ratio_of(load, cluster, Solver::waybill);
    const LayerPlan public_plan = planned(load, cluster, {.solver = Solver::eplb});
    const double theirs = public_plan.after.balance_ratio;
    // The public solver may put two copies of an expert on a rank, which the others may not.
    if (broken_rule(public_plan.slots, cluster, 8).empty()) {
      EXPECT_LE(best, theirs + 2e-6);
    }
    EXPECT_LE(best, ours);
    waybill_over += (ours / best - 1) / kRounds;
    eplb_over += (theirs / best - 1) / kRounds;
  }
  EXPECT_LE(waybill_over, 0.001);
  EXPECT_GE(eplb_over, 0.05);
}

TEST(Exact, KeepsACopyOfEachExpertInItsGroupsNode) {
  std::mt19937 rng(2);
  const Cluster cluster = even_cluster(8, 4, 2, 12);
  const auto load = drawn_load(rng, 8);
  for (Locality locality : {Locality::soft, Locality::hard}) {
    const LayerPlan plan = planned(
        load, cluster,
        {.solver = Solver::exact, .locality = locality, .groups = 4, .exact_seconds = kSeconds});
    EXPECT_EQ(broken_rule(plan.slots, cluster, 8), "");
    for (std::int32_t group = 0; group < 4; ++group) {
      EXPECT_TRUE(testing::has_home(plan.slots, cluster.topology, 2 * group, 2));
    }
  }
}

TEST(Exact, SaysWhatItKnowsWhenTimeRunsOut) {
  std::mt19937 rng(5);
  const auto load = drawn_load(rng, 16);
  const Cluster cluster = even_cluster(16, 8, 1, 24);
  const LayerPlan plan = planned(load, cluster, {.solver = Solver::exact, .exact_seconds = 1e-6});
  EXPECT_EQ(broken_rule(plan.slots, cluster, 16), "");
  EXPECT_EQ(plan.proof->status, ProofStatus::timed_out);
  EXPECT_GE(plan.proof->bound, 1);
  EXPECT_LE(plan.proof->bound, plan.after.balance_ratio);
  EXPECT_LE(plan.after.balance_ratio, ratio_of(load, cluster, Solver::waybill));
}

TEST(Exact, SaysWhatItKnowsWhenThereIsTooMuchToDecide) {
  const LoadMatrix loads = testing::gpt_oss_loads()[0].load;
  const Cluster cluster = even_cluster(32, 8, 1, 40);
  const LayerPlan plan =
      planned(loads.total(0), cluster, {.solver = Solver::exact, .exact_seconds = kSeconds});
  EXPECT_EQ(plan.proof->status, ProofStatus::bounded);
  EXPECT_LE(plan.proof->bound, plan.after.balance_ratio);
}

TEST(Exact, RefusesAnInstanceThatIsTooLarge) {
  const std::vector<double> load(256, 1);
  const Error error =
      fault([&] { planned(load, even_cluster(256, 32, 1, 288), {.solver = Solver::exact}); });
  EXPECT_EQ(error.code(), Code::InvalidValue);
  EXPECT_THAT(error.what(), HasSubstr("256 x 32 x 32"));
}

#else

TEST(Exact, IsRefusedByNameInABuildWithoutIt) {
  const Error error = fault([] {
    planned({1, 2, 3}, even_cluster(3, 2, 1, 4), {.solver = Solver::exact});
  });
  EXPECT_EQ(error.code(), Code::OptionNotBuilt);
  EXPECT_EQ(error.coordinate("solver"), "exact");
}

#endif

}  // namespace
}  // namespace waybill
