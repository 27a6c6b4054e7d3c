#include "route/sparsemixer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace waybill {
namespace {

bool contains(std::span<const std::int32_t> chosen, std::size_t expert) {
  return std::ranges::find(chosen, static_cast<std::int32_t>(expert)) != chosen.end();
}

std::size_t largest_but(std::span<const std::int32_t> chosen, std::span<const float> logits) {
  std::size_t best = logits.size();
  for (std::size_t e = 0; e < logits.size(); ++e) {
    if (contains(chosen, e)) continue;
    if (best == logits.size() || logits[e] > logits[best]) best = e;
  }
  return best;
}

}  // namespace

void sparsemixer(std::span<const float> logits, float jitter_epsilon,
                 std::span<std::int32_t> experts, std::span<float> gates) {
  const float threshold = 2 * jitter_epsilon;
  for (std::size_t j = 0; j < experts.size(); ++j) {
    const std::span<const std::int32_t> chosen = experts.first(j);
    const std::size_t best = largest_but(chosen, logits);
    const float largest = logits[best];
    float sum = 0.0F;
    for (std::size_t e = 0; e < logits.size(); ++e) {
      if (contains(chosen, e)) continue;
      // Zero over zero is no distance: such a logit stays, as does every NaN.
      const float distance = (largest - logits[e]) / std::max(std::abs(logits[e]), largest);
      if (!(distance > threshold)) sum += std::exp(logits[e] - largest);
    }
    experts[j] = static_cast<std::int32_t>(best);
    gates[j] = 1.0F / sum;
  }
}

}  // namespace waybill
