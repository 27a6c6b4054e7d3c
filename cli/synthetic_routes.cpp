#include "synthetic_routes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace waybill::cli {

// Weighted sampling without replacement: every expert waits an exponential time at its own rate,
// and the k that come first are chosen (Efraimidis and Spirakis 2006).
RoutingResult make_routes(const SyntheticRoutes& synthetic, std::int64_t tokens) {
  const auto experts = static_cast<std::size_t>(synthetic.experts);
  const auto topk = static_cast<std::ptrdiff_t>(synthetic.topk);
  const bool zipf = synthetic.popularity == "zipf";
  std::mt19937_64 random(synthetic.seed);
  std::vector<double> arrival(experts);
  std::vector<std::int32_t> order(experts);
  RoutingResult result;
  result.topk = synthetic.topk;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::size_t e = 0; e < experts; ++e) {
      const double uniform = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
      arrival[e] = -std::log(uniform) * (zipf ? static_cast<double>(e + 1) : 1.0);
    }
    std::iota(order.begin(), order.end(), 0);
    std::ranges::partial_sort(order, order.begin() + topk, {},
                              [&](std::int32_t e) { return arrival[static_cast<std::size_t>(e)]; });
    result.experts.insert(result.experts.end(), order.begin(), order.begin() + topk);
  }
  result.gates.assign(result.experts.size(), 1.0F / static_cast<float>(synthetic.topk));
  return result;
}

}  // namespace waybill::cli
