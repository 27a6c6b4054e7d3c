// The balance solvers on recorded loads: the ratio of the largest to the mean rank, averaged over
// layers, beside its limit and the public solver's ratio in the same run, and the time a layer
// takes on one core.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "balance/recorded_loads.h"
#include "waybill/balance.h"
#include "waybill/eplb.h"

namespace waybill::bench {
namespace {

constexpr int kSamples = 7;

// Processor time: the work runs on one thread, and other programs may run beside it.
double milliseconds(const auto& work) {
  const std::clock_t start = std::clock();
  work();
  return 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// The least of some runs.
double least_milliseconds(const auto& work) {
  double least = milliseconds(work);
  for (int i = 1; i < kSamples; ++i) least = std::min(least, milliseconds(work));
  return least;
}

struct Shape {
  std::int32_t slots, ranks, nodes = 1, groups = 1;
};

void print_header() {
  fmt::print("{:<52} {:>8} {:>8} {:>8} {:>10} {:>8} {}\n", "cell", "ratio", "limit", "public",
             "ms a layer", "limit", "holds");
}

void balance_row(const std::string& name, const LoadMatrix& load, const Shape& shape,
                 double limit) {
  const Cluster cluster = even_cluster(load.experts(), shape.ranks, shape.nodes, shape.slots);
  const BalanceOptions options{.groups = shape.groups};
  BalancePlan plan;
  const double ms = least_milliseconds([&] { plan = balance(load, cluster, {}, options); }) /
                    static_cast<double>(load.layers().size());
  const BalancePlan peer =
      balance(load, cluster, {}, {.solver = Solver::eplb, .groups = shape.groups});
  const double ratio = plan.mean_ratio_after(), peer_ratio = peer.mean_ratio_after();
  constexpr double kLimitMs = 0.7;
  const std::string cell = fmt::format("{} -> {}/{}{}", name, shape.slots, shape.ranks,
                                       shape.nodes > 1 ? " soft locality" : "");
  fmt::print("{:<52} {:>8.4f} {:>8.4f} {:>8.4f} {:>10.3f} {:>8.1f} {}\n", cell, ratio, limit,
             peer_ratio, ms, kLimitMs,
             ratio <= limit && ratio < peer_ratio && ms <= kLimitMs ? "yes" : "NO");
}

void synthetic_rows() {
  struct Model {
    const char* name;
    Shape shape;
    double zipf10, zipf12, lognormal;
  };
  const std::vector<Model> models{
      {"deepseek_v3_58x256", {320, 64}, 1.001, 1.040, 1.002},
      {"qwen3_235b_94x128", {160, 32}, 1.0015, 1.035, 1.003},
      {"kimi_k2_60x384", {448, 64}, 1.0005, 1.03, 1.001},
      {"deepseek_v3_58x256", {288, 32, 4, 8}, 1.030, 1.045, 1.018},
  };
  for (const Model& model : models) {
    const std::string name = model.name;
    for (const auto& [kind, limit] : {std::pair{"_zipf1.0", model.zipf10},
                                      {"_zipf1.2", model.zipf12},
                                      {"_lognormal1", model.lognormal}}) {
      balance_row(name + kind, testing::synthetic_load(name + kind), model.shape, limit);
    }
  }
}

// Sets without a limit of their own have to beat the public solver.
void gpt_oss_rows() {
  constexpr double kNoLimit = 9;
  const std::vector<std::string> first_five{"mmlu_test", "mmlu_pro_test", "tulu3_persona_if",
                                            "sorry_bench_base", "gpqa_main"};
  for (const testing::NamedLoad& set : testing::gpt_oss_loads()) {
    const auto at = std::ranges::find(first_five, set.name) - first_five.begin();
    balance_row("gpt_oss " + set.name, set.load, {40, 8}, at < 5 ? 1.012 : kNoLimit);
    balance_row("gpt_oss " + set.name, set.load, {64, 32}, at < 4 ? 1.11 : kNoLimit);
  }
}

LoadMatrix with_noise(const LoadMatrix& load, double share) {
  std::mt19937 rng(3);
  std::vector<double> values;
  for (std::size_t i = 0; i < load.layers().size(); ++i) {
    for (double value : load.total(i)) {
      const double u = static_cast<double>(rng()) / static_cast<double>(std::mt19937::max());
      values.push_back(value * (1 + share * (2 * u - 1)));
    }
  }
  return testing::load_matrix(std::move(values), load.experts());
}

// How a placement in force is left when the load changes a little.
struct Churn {
  double noise;
  bool told_to_move;  // else the default rule for staying
  double most_slots;  // share of the slots that may change: a limit of the plan, or of its result
  bool limited;
  double least_gain;  // share of the attainable gain
};

void churn_row(const std::string& name, const Churn& churn) {
  const LoadMatrix load = testing::synthetic_load(name), later = with_noise(load, churn.noise);
  const Cluster cluster = even_cluster(load.experts(), 32, 1, 288);
  std::vector<SlotLists> in_force;
  for (const LayerPlan& layer : balance(load, cluster).layers) in_force.push_back(layer.slots);
  BalanceOptions options;
  if (churn.told_to_move) options.min_gain = 0;
  if (churn.limited) options.max_changed_slots = static_cast<std::int32_t>(288 * churn.most_slots);
  BalancePlan plan;
  const double layers = static_cast<double>(load.layers().size());
  const double ms =
      least_milliseconds([&] { plan = balance(later, cluster, in_force, options); }) / layers;
  const double attainable = plan.mean_ratio_before() - balance(later, cluster).mean_ratio_after();
  const double gained = (plan.mean_ratio_before() - plan.mean_ratio_after()) / attainable;
  const double changed = plan.changed_slots() / layers / 288;
  fmt::print(
      "{:<30} noise {:.1f} %, {}: {:>4.1f} % of slots change (limit {:>2.0f}), {:>4.1f} % of the "
      "gain (limit {:>2.0f}), {:.3f} ms a layer {}\n",
      name, 100 * churn.noise, churn.told_to_move ? "told to move" : "default     ", 100 * changed,
      100 * churn.most_slots, 100 * gained, 100 * churn.least_gain, ms,
      changed <= churn.most_slots && gained >= churn.least_gain ? "yes" : "NO");
}

void eplb_row(const std::string& name, const EplbShape& shape, double limit_ms) {
  const LoadMatrix load = testing::synthetic_load(name);
  std::vector<float> weight;
  for (std::size_t i = 0; i < load.layers().size(); ++i) {
    for (double value : load.total(i)) weight.push_back(static_cast<float>(value));
  }
  const auto layers = static_cast<std::int32_t>(load.layers().size());
  EplbPlan plan;
  const double ms = least_milliseconds([&] { plan = eplb(weight, layers, load.experts(), shape); });
  fmt::print(
      "eplb {:<28} -> {}/{} groups {} nodes {}: {:.2f} ms for all layers, {:.2f} of the limit of "
      "{:.0f} {}\n",
      name, shape.replicas, shape.gpus, shape.groups, shape.nodes, ms, ms / limit_ms, limit_ms,
      ms <= limit_ms ? "yes" : "NO");
}

void run() {
  print_header();
  synthetic_rows();
  gpt_oss_rows();
  for (const char* name : {"deepseek_v3_58x256_zipf1.0", "deepseek_v3_58x256_zipf1.2",
                           "deepseek_v3_58x256_lognormal1"}) {
    churn_row(name, {0.001, false, 0, false, 0});
    churn_row(name, {0.01, false, 0.14, false, 0});
    churn_row(name, {0.01, true, 0.05, true, 0.45});
    churn_row(name, {0.01, true, 0.14, false, 0.80});
  }
  eplb_row("deepseek_v3_58x256_zipf1.0", {288, 8, 4, 32}, 2);
  eplb_row("deepseek_v3_58x256_zipf1.0", {288, 1, 1, 32}, 2);
  eplb_row("kimi_k2_60x384_zipf1.0", {448, 8, 8, 64}, 4);
  eplb_row("kimi_k2_60x384_zipf1.0", {448, 1, 1, 64}, 4);
}

}  // namespace
}  // namespace waybill::bench

int main() { waybill::bench::run(); }
