#include "route/top_experts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace waybill {
namespace {

// Integers in the order of the floats, NaN below all; both zeros are equal.
std::uint32_t ordered(float score) {
  if (std::isnan(score)) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);
  return (bits >> 31U) != 0 ? ~bits : bits | 0x80000000U;
}

// Larger is better: the score, then the lower id.
std::uint64_t key(float score, std::uint32_t id) {
  return std::uint64_t{ordered(score)} << 32U | (std::numeric_limits<std::uint32_t>::max() - id);
}
std::int32_t id_of(std::uint64_t key) {
  return static_cast<std::int32_t>(std::numeric_limits<std::uint32_t>::max() -
                                   static_cast<std::uint32_t>(key));
}

void take_best(std::vector<std::uint64_t>& keys, std::span<std::int32_t> chosen) {
  const auto end = keys.begin() + static_cast<std::ptrdiff_t>(chosen.size());
  std::partial_sort(keys.begin(), end, keys.end(), std::greater<>());
  std::transform(keys.begin(), end, chosen.begin(), id_of);
}

float group_score(std::span<const float> scores, GroupScore by) {
  float best = -std::numeric_limits<float>::infinity();
  float second = best;
  for (float score : scores) {
    if (score > best) {
      second = best;
      best = score;
    } else if (score > second) {
      second = score;
    }
  }
  return by == GroupScore::best || scores.size() == 1 ? best : best + second;
}

}  // namespace

void TopExperts::keep_groups(std::span<const float> scores) {
  const auto groups = static_cast<std::size_t>(spec_.groups);
  const std::size_t size = scores.size() / groups;
  group_scores_.resize(groups);
  keys_.clear();
  for (std::size_t g = 0; g < groups; ++g) {
    group_scores_[g] = group_score(scores.subspan(g * size, size), spec_.group_score);
    keys_.push_back(key(group_scores_[g], static_cast<std::uint32_t>(g)));
  }
  kept_.resize(static_cast<std::size_t>(spec_.topk_groups));
  take_best(keys_, kept_);
}

void TopExperts::choose(std::span<const float> scores, std::span<std::int32_t> chosen) {
  keep_groups(scores);
  keys_.clear();
  const std::size_t size = scores.size() / static_cast<std::size_t>(spec_.groups);
  for (std::int32_t group : kept_) {
    const std::size_t begin = static_cast<std::size_t>(group) * size;
    for (std::size_t e = begin; e < begin + size; ++e) {
      keys_.push_back(key(scores[e], static_cast<std::uint32_t>(e)));
    }
  }
  take_best(keys_, chosen);
}

}  // namespace waybill
