// The router in double precision, from its definition: no kernels, no packed order.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "waybill/block.h"

namespace waybill {
namespace {

// A figure, and how far FP32 may bring it from there.
struct Estimate {
  double value = 0, uncertainty = 0;
};

bool above(const Estimate& a, const Estimate& b) { return a.value > b.value; }
// The other order is no fault.
bool may_swap(const Estimate& a, const Estimate& b) {
  return a.value - b.value <= a.uncertainty + b.uncertainty;
}

// FP32 arithmetic on a figure rounds its last bits.
Estimate rounded(double value, double uncertainty) {
  return {value, uncertainty + std::abs(value) * 0x1p-22};
}

std::vector<std::size_t> best_first(const std::vector<Estimate>& figures) {
  std::vector<std::size_t> order(figures.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return above(figures[a], figures[b]); });
  return order;
}

class DirectRouter {
 public:
  DirectRouter(const Router& router, std::span<const float> row)
      : router_(router), spec_(router.spec) {
    for (std::int32_t e = 0; e < spec_.experts; ++e) logits_.push_back(logit(e, row));
  }

  DirectRouting route() {
    if (spec_.score == RouterScore::sparsemixer) {
      mix();
    } else {
      choose();
    }
    if (spec_.renormalize) renormalize();
    for (double& gate : result_.gates) gate *= static_cast<double>(spec_.scale);
    for (const Estimate& logit : logits_) {
      result_.uncertainty = std::max(result_.uncertainty, logit.uncertainty);
    }
    return std::move(result_);
  }

 private:
  // The rounding of a sum of n products grows as a random walk, far below n roundings of its terms.
  Estimate logit(std::int64_t expert, std::span<const float> row) const {
    double sum = router_.bias.data == nullptr ? 0 : element(router_.bias, expert);
    double magnitude = std::abs(sum);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double product = static_cast<double>(row[i]) *
                             element(router_.weight, expert, static_cast<std::int64_t>(i));
      sum += product;
      magnitude += std::abs(product);
    }
    return {sum, magnitude * 0x1p-20};
  }

  void choose() {
    const std::vector<Estimate> scores = all_scores();
    std::vector<Estimate> selection = scores;
    if (router_.selection_bias.data != nullptr) {
      for (std::size_t e = 0; e < selection.size(); ++e) {
        const double bias = element(router_.selection_bias, static_cast<std::int64_t>(e));
        selection[e] = rounded(selection[e].value + bias, selection[e].uncertainty);
      }
    }
    drop_groups(selection);
    for (const std::size_t e : take_best(selection, spec_.topk)) {
      result_.experts.push_back(static_cast<std::int32_t>(e));
      result_.gates.push_back(scores[e].value);
    }
    if (spec_.score == RouterScore::topk_then_softmax) softmax(result_.gates);
    if (spec_.score == RouterScore::topk_then_sigmoid) {
      for (double& gate : result_.gates) gate = 1 / (1 + std::exp(-gate));
    }
  }

  // What stands before the choice: scores of every expert.
  std::vector<Estimate> all_scores() const {
    std::vector<Estimate> scores = logits_;
    if (spec_.score == RouterScore::sigmoid) {
      for (Estimate& score : scores) {
        const double s = 1 / (1 + std::exp(-score.value));
        score = rounded(s, s * (1 - s) * score.uncertainty);
      }
    }
    if (spec_.score == RouterScore::softmax_then_topk) {
      std::vector<double> values(scores.size());
      std::ranges::transform(scores, values.begin(), &Estimate::value);
      softmax(values);
      for (std::size_t e = 0; e < scores.size(); ++e) {
        scores[e] = rounded(values[e], 2 * values[e] * scores[e].uncertainty);
      }
    }
    return scores;
  }

  static void softmax(std::vector<double>& values) {
    const double largest = *std::ranges::max_element(values);
    double sum = 0;
    for (double& value : values) sum += value = std::exp(value - largest);
    for (double& value : values) value /= sum;
  }

  // Indices of the best `count`; notes whether the next one might stand in for the last.
  std::vector<std::size_t> take_best(const std::vector<Estimate>& figures, std::int32_t count) {
    std::vector<std::size_t> order = best_first(figures);
    const auto n = static_cast<std::size_t>(count);
    if (n < order.size() && may_swap(figures[order[n - 1]], figures[order[n]])) result_.tie = true;
    order.resize(n);
    return order;
  }

  // Experts of groups that aren't kept can't be chosen.
  void drop_groups(std::vector<Estimate>& selection) {
    const auto groups = static_cast<std::size_t>(spec_.groups);
    const std::size_t size = selection.size() / groups;
    std::vector<Estimate> group_scores;
    for (std::size_t g = 0; g < groups; ++g) {
      const auto begin = selection.begin() + static_cast<std::ptrdiff_t>(g * size);
      std::vector<Estimate> members(begin, begin + static_cast<std::ptrdiff_t>(size));
      std::ranges::sort(members, above);
      Estimate score = members[0];
      if (spec_.group_score == GroupScore::two_best && size > 1) {
        score = rounded(score.value + members[1].value, score.uncertainty + members[1].uncertainty);
      }
      group_scores.push_back(score);
    }
    std::vector<bool> kept(groups, false);
    for (const std::size_t g : take_best(group_scores, spec_.topk_groups)) kept[g] = true;
    for (std::size_t e = 0; e < selection.size(); ++e) {
      if (!kept[e / size]) selection[e] = {-std::numeric_limits<double>::infinity(), 0};
    }
  }

  // Each choice is the largest logit left; its gate is a softmax over those left near it.
  void mix() {
    std::vector<std::size_t> left = best_first(logits_);
    const double threshold = 2 * static_cast<double>(spec_.jitter_epsilon);
    for (std::int32_t j = 0; j < spec_.topk; ++j) {
      const Estimate& largest = logits_[left.front()];
      if (left.size() > 1 && may_swap(largest, logits_[left[1]])) result_.tie = true;
      double sum = 0;
      for (const std::size_t e : left) {
        const Estimate& logit = logits_[e];
        const double scale = std::max(std::abs(logit.value), largest.value);
        const double beyond = largest.value - logit.value - threshold * scale;
        if (std::abs(beyond) <= 2 * (largest.uncertainty + logit.uncertainty)) {
          result_.tie = result_.tie || e != left.front();
        }
        if (beyond <= 0 || e == left.front()) sum += std::exp(logit.value - largest.value);
      }
      result_.experts.push_back(static_cast<std::int32_t>(left.front()));
      result_.gates.push_back(1 / sum);
      left.erase(left.begin());
    }
  }

  void renormalize() {
    double sum = static_cast<double>(spec_.renormalize_epsilon);
    for (const double gate : result_.gates) sum += gate;
    sum = std::max(sum, static_cast<double>(spec_.renormalize_floor));
    for (double& gate : result_.gates) gate /= sum;
  }

  const Router& router_;
  const RouterSpec& spec_;
  std::vector<Estimate> logits_;
  DirectRouting result_;
};

bool same_experts(const DirectRouting& direct, std::span<const std::int32_t> experts) {
  return std::ranges::is_permutation(direct.experts, experts);
}

bool same_gates(const DirectRouting& direct, std::span<const std::int32_t> experts,
                std::span<const float> gates) {
  const double largest = std::abs(
      *std::ranges::max_element(direct.gates, {}, [](double gate) { return std::abs(gate); }));
  for (std::size_t j = 0; j < direct.gates.size(); ++j) {
    const auto at = std::ranges::find(experts, direct.experts[j]) - experts.begin();
    const double difference =
        std::abs(static_cast<double>(gates[static_cast<std::size_t>(at)]) - direct.gates[j]);
    if (!(difference <= (5e-6 + 2 * direct.uncertainty) * largest)) return false;
  }
  return true;
}

}  // namespace

DirectRouting route_directly(const Checkpoint& checkpoint, LayerId layer,
                             std::span<const float> hidden_row) {
  const Router router = checkpoint.router(layer);
  return DirectRouter(router, hidden_row).route();
}

RoutingVerdict judge(const DirectRouting& direct, std::span<const std::int32_t> topk_experts,
                     std::span<const float> topk_gates) {
  const bool experts = same_experts(direct, topk_experts);
  if (experts && same_gates(direct, topk_experts, topk_gates)) return RoutingVerdict::right;
  if (direct.tie) return RoutingVerdict::tied;
  return experts ? RoutingVerdict::other_gates : RoutingVerdict::other_experts;
}

}  // namespace waybill
