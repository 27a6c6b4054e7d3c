#include "waybill/load_estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "balance/recorded_loads.h"
#include "support/fault.h"
#include "waybill/balance.h"

namespace waybill {
namespace {

using ::testing::ElementsAre;
using testing::fault;
using testing::first_layers;
using testing::NamedLoad;

LoadWindow window_of(std::vector<double> load, LoadProvenance provenance = {}) {
  const auto experts = static_cast<std::int32_t>(load.size());
  return {LoadMatrix(first_layers(1), 1, experts, std::move(load), std::move(provenance))};
}

std::vector<double> estimated(const std::vector<LoadWindow>& windows, EstimateOptions options) {
  return estimate_load(windows, options).total(0);
}

LoadProvenance steps(std::int64_t first, std::int64_t last, LoadPhase phase = LoadPhase::mixed) {
  LoadProvenance provenance;
  provenance.phase = phase;
  provenance.first_step = first;
  provenance.last_step = last;
  return provenance;
}

TEST(LoadEstimate, TrailingSumsTheNewestWindows) {
  const std::vector<LoadWindow> windows{window_of({9, 9}), window_of({1, 2}), window_of({3, 4})};
  EXPECT_THAT(estimated(windows, {.windows = 2}), ElementsAre(4, 6));
  EXPECT_THAT(estimated(windows, {}), ElementsAre(13, 15));
}

TEST(LoadEstimate, EmaWeighsThePastWithBeta) {
  const std::vector<LoadWindow> windows{window_of({8, 0}), window_of({0, 8}), window_of({0, 8})};
  EXPECT_THAT(estimated(windows, {.estimator = Estimator::ema, .beta = 0.5}), ElementsAre(2, 6));
}

TEST(LoadEstimate, IdleWindowsFeedNoPlan) {
  std::vector<LoadWindow> windows{window_of({8, 0}), window_of({100, 100}), window_of({0, 0}),
                                  window_of({0, 8})};
  windows[1].idle = true;  // a warm-up's rows, say
  for (Estimator estimator : {Estimator::trailing, Estimator::ema, Estimator::trend}) {
    const std::vector<LoadWindow> busy{windows[0], windows[3]};
    EXPECT_EQ(estimated(windows, {.estimator = estimator}),
              estimated(busy, {.estimator = estimator}));
  }
  EXPECT_EQ(estimate_load(windows).provenance().window, "trailing 2 windows, 2 idle passed over");
  windows.pop_back();
  windows.erase(windows.begin());
  EXPECT_EQ(fault([&] { estimate_load(windows); }).code(), Code::MissingField);
}

TEST(LoadEstimate, PhasesGetEstimatesAndPlacementsOfTheirOwn) {
  const std::vector<LoadWindow> windows{
      window_of({90, 10, 50, 50}, steps(0, 9, LoadPhase::prefill)),
      window_of({10, 90, 20, 20}, steps(10, 19, LoadPhase::decode)),
      window_of({80, 10, 40, 50}, steps(20, 29, LoadPhase::prefill))};
  const std::vector<LoadMatrix> phases = estimate_by_phase(windows);
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0].provenance().phase, LoadPhase::prefill);
  EXPECT_THAT(phases[0].total(0), ElementsAre(170, 20, 90, 100));
  EXPECT_EQ(phases[1].provenance().phase, LoadPhase::decode);
  EXPECT_THAT(phases[1].total(0), ElementsAre(10, 90, 20, 20));

  const Cluster cluster = even_cluster(4, 2, 1, 5);
  EXPECT_NE(balance(phases[0], cluster).layers[0].slots,
            balance(phases[1], cluster).layers[0].slots);
  EXPECT_EQ(balance(phases[1], cluster).load.phase, LoadPhase::decode);
  EXPECT_EQ(estimate_load(windows).provenance().phase, LoadPhase::mixed);
}

TEST(LoadEstimate, KernelTimeTellsFewRowsOfManyExpertsFromManyOfOne) {
  // One row takes as long as sixteen: weights are read once.
  const KernelTime kernel{{1, 16, 32}, {10, 10, 18}};
  const std::vector<LoadWindow> windows{window_of({100, 1600, 6400, 50, 0}, steps(0, 99))};
  const LoadMatrix time = estimate_load(windows, {.kernel_time = kernel});
  EXPECT_THAT(time.total(0), ElementsAre(1000, 1000, 3400, 500, 0));
  EXPECT_EQ(time.provenance().unit, LoadUnit::time_us);
  EXPECT_EQ(fault([&] {
              estimate_load(std::vector{window_of({1, 2})}, {.kernel_time = kernel});
            }).code(),
            Code::MissingField);
  EXPECT_EQ(fault([&] {
              estimate_load(windows, {.kernel_time = KernelTime{{2, 1}, {1, 2}}});
            }).coordinate("point"),
            "1");
}

TEST(LoadEstimate, SaysWhatItWasMadeOf) {
  LoadProvenance first = steps(100, 199), second = steps(200, 299);
  first.checkpoint = second.checkpoint = CheckpointVersion("checkpoint-0042");
  first.placement = PlacementVersion("v17");
  second.placement = PlacementVersion("v18");
  second.router = "r3";
  const std::vector<LoadWindow> windows{window_of({1, 2}, first), window_of({3, 4}, second)};
  const LoadProvenance made =
      estimate_load(windows, {.estimator = Estimator::ema, .beta = 0.75}).provenance();
  EXPECT_EQ(made.aggregation, Aggregation::moving);
  EXPECT_EQ(made.window, "ema 2 windows, beta 0.75");
  EXPECT_EQ(made.checkpoint.value, "checkpoint-0042");
  EXPECT_EQ(made.placement.value, "v17, v18");
  EXPECT_EQ(made.router, "r3");
  EXPECT_EQ(made.first_step, 100);
  EXPECT_EQ(made.last_step, 299);
}

TEST(LoadEstimate, WindowsOfAnotherModelOrUnitAreRefused) {
  LoadProvenance first, other;
  first.checkpoint = CheckpointVersion("checkpoint-0042");
  other.checkpoint = CheckpointVersion("checkpoint-0043");
  const auto join = [&](const LoadProvenance& next) {
    return fault([&] {
             estimate_load(std::vector{window_of({1, 2}, first), window_of({3, 4}, next)});
           })
        .code();
  };
  EXPECT_EQ(join(other), Code::LoadProvenanceMismatch);
  other = first;
  other.unit = LoadUnit::time_us;
  EXPECT_EQ(join(other), Code::LoadUnitMismatch);
  other = first;
  other.counted = "at the destination";
  EXPECT_EQ(join(other), Code::LoadProvenanceMismatch);
  EXPECT_EQ(fault([&] {
              estimate_load(std::vector{window_of({1, 2}), window_of({1, 2, 3})});
            }).code(),
            Code::ShapeMismatch);
}

// Windows of counts drawn from shares that go from one recorded set's to another's.
class Traffic {
 public:
  Traffic(const LoadMatrix& from, const LoadMatrix& to) : from_(from), to_(to), rng_(17) {}

  // `part` of the way; `tokens` choices a layer.
  LoadWindow window(double part, double tokens) {
    std::vector<double> counts;
    for (std::size_t layer = 0; layer < from_.layers().size(); ++layer) {
      const std::vector<double> a = shares(from_, layer), b = shares(to_, layer);
      for (std::size_t e = 0; e < a.size(); ++e) {
        const double expected = tokens * ((1 - part) * a[e] + part * b[e]);
        counts.push_back(expected > 0 ? static_cast<double>(
                                            std::poisson_distribution<std::int64_t>(expected)(rng_))
                                      : 0);
      }
    }
    return {testing::load_matrix(std::move(counts), from_.experts())};
  }

 private:
  static std::vector<double> shares(const LoadMatrix& load, std::size_t layer) {
    std::vector<double> share = load.total(layer);
    const double sum = std::accumulate(share.begin(), share.end(), 0.0);
    for (double& s : share) s /= sum;
    return share;
  }

  const LoadMatrix& from_;
  const LoadMatrix& to_;
  std::mt19937 rng_;
};

// Mean ratio over layers that a plan for `estimate` gives under the load that came.
double served_ratio(const LoadMatrix& estimate, const LoadMatrix& came) {
  const Cluster cluster = even_cluster(estimate.experts(), 8, 1, 40);
  const BalancePlan plan = balance(estimate, cluster);
  double sum = 0;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    sum += balance_ratio(came.total(i), plan.layers[i].slots);
  }
  return sum / static_cast<double>(plan.layers.size());
}

struct Served {
  double trailing = 0, trend = 0;
};

// Eight windows are seen, the ninth is planned for: how uneven it is. `drift`: share of the way
// between the sets that the windows go.
Served served(double drift, double tokens) {
  const std::vector<NamedLoad> sets = testing::gpt_oss_loads();
  Served mean;
  constexpr std::size_t kPairs = 3;
  for (std::size_t pair = 0; pair < kPairs; ++pair) {
    Traffic traffic(sets[2 * pair].load, sets[2 * pair + 5].load);
    std::vector<LoadWindow> windows;
    for (int w = 0; w < 9; ++w) windows.push_back(traffic.window(drift * w / 8, tokens));
    const LoadMatrix came = windows.back().load;
    windows.pop_back();
    mean.trailing += served_ratio(estimate_load(windows), came) / kPairs;
    mean.trend +=
        served_ratio(estimate_load(windows, {.estimator = Estimator::trend}), came) / kPairs;
  }
  return mean;
}

TEST(LoadEstimate, TrendPlansBetterThanTrailingWhenTrafficDrifts) {
  const Served ratio = served(1, 100'000);
  EXPECT_LT(ratio.trend - 1, 0.6 * (ratio.trailing - 1));
}

TEST(LoadEstimate, TrendPlansAboutAsWellAsTrailingWhenTrafficDoesnt) {
  for (double tokens : {2'000.0, 100'000.0}) {
    const Served ratio = served(0, tokens);
    EXPECT_LT(ratio.trend - 1, 1.1 * (ratio.trailing - 1)) << tokens;
  }
}

TEST(LoadEstimate, TrendOfAStraightLineIsItsNextPoint) {
  std::vector<LoadWindow> windows;
  for (int w = 0; w < 5; ++w) windows.push_back(window_of({50.0 + 5 * w, 50.0 - 5 * w}));
  const std::vector<double> next = estimated(windows, {.estimator = Estimator::trend});
  EXPECT_NEAR(next[0] / (next[0] + next[1]), 0.75, 1e-12);
  EXPECT_NEAR(next[0] + next[1], 500, 1e-9);
}

}  // namespace
}  // namespace waybill
