#include "model/input_scaling.h"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace waybill {

std::vector<float> scaled_rows(const TensorView& hidden, const RoutingResult& routing) {
  const auto d = static_cast<std::size_t>(hidden.shape[1]);
  const auto k = static_cast<std::size_t>(routing.topk);
  std::vector<float> rows(routing.gates.size() * d);
  for (std::size_t r = 0; r < routing.gates.size(); ++r) {
    const float gate = routing.gates[r];
    const float* row = hidden.as<float>() + r / k * d;
    std::transform(row, row + d, rows.data() + r * d, [gate](float x) { return gate * x; });
  }
  return rows;
}

void add_routes(std::span<const float> by_route, std::int32_t topk, std::int64_t hidden,
                std::span<float> out) {
  const auto d = static_cast<std::size_t>(hidden);
  const auto k = static_cast<std::size_t>(topk);
  for (std::size_t t = 0; t * d < out.size(); ++t) {
    const std::span<float> sum = out.subspan(t * d, d);
    std::ranges::copy(by_route.subspan(t * k * d, d), sum.begin());
    for (std::size_t j = 1; j < k; ++j) {
      std::ranges::transform(sum, by_route.subspan((t * k + j) * d, d), sum.begin(), std::plus<>());
    }
  }
}

}  // namespace waybill
