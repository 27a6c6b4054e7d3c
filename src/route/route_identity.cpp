#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "waybill/error.h"
#include "waybill/routes.h"

namespace waybill {

void check_route_identities(std::span<const RouteIdentity> rows) {
  std::vector<std::size_t> order;
  check_route_identities(rows, order);
}

void check_route_identities(std::span<const RouteIdentity> rows, std::vector<std::size_t>& order) {
  order.resize(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return rows[a] != rows[b] ? rows[a] < rows[b] : a < b;
  });
  const auto twice = std::adjacent_find(
      order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rows[a] == rows[b]; });
  if (twice == order.end()) return;
  const RouteIdentity& row = rows[*twice];
  throw Error(Code::RouteIdentityCollision)
      .at("origin rank", row.origin)
      .at("token", row.token)
      .at("route slot", row.slot)
      .expected("an identity of its own for each row")
      .found(fmt::format("rows {} and {}", *twice, *(twice + 1)));
}

}  // namespace waybill
