#include "model/input_scaling.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>

#include "exec/wire_order.h"

namespace waybill {

std::vector<float> scaled_rows(const TensorView& hidden, const RoutesView& routes) {
  const auto d = static_cast<std::size_t>(hidden.shape[1]);
  std::vector<float> rows(routes.gates.size() * d);
  for (std::int32_t r = 0; r < routes.size(); ++r) {
    const RouteId route{r};
    const float gate = routes.gates[route.index()];
    const float* row = hidden.as<float>() + routes.token(route).value * hidden.strides[0];
    std::transform(row, row + d, rows.data() + route.index() * d,
                   [gate](float x) { return gate * x; });
  }
  return rows;
}

void add_routes(std::span<const float> by_route, const RoutesView& routes,
                const CombineTarget& to) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(routes.size()));
  std::iota(positions.begin(), positions.end(), 0);
  CombineInput input;
  input.routes = routes;
  input.send_position = positions;
  input.sent = WireOrder(std::array{0, routes.size()}, PeerSlot{0});
  input.local_rows = std::as_bytes(by_route).data();
  input.to = to;
  combine_tokens(input, 0, routes.tokens);
}

}  // namespace waybill
