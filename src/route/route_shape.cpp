#include "route/route_shape.h"

#include <fmt/format.h>

#include <limits>

#include "waybill/error.h"

namespace waybill {
namespace {

void check_least(std::string_view field, std::int32_t value, std::int32_t least) {
  if (value >= least) return;
  throw Error(Code::InvalidValue)
      .at("field", field)
      .expected(fmt::format("at least {}", least))
      .found(value);
}

void check_column(const RoutesView& routes, std::string_view field, std::size_t values,
                  std::int64_t wanted) {
  if (static_cast<std::int64_t>(values) == wanted) return;
  throw Error(Code::RouteCountMismatch)
      .at("field", field)
      .expected(fmt::format("[{}, {}]: {} values", routes.tokens, routes.topk, wanted))
      .found(values);
}

}  // namespace

void check_shape(const RoutesView& routes) {
  check_least("tokens", routes.tokens, 0);
  check_least("topk", routes.topk, 1);
  const std::int64_t size = std::int64_t{routes.tokens} * routes.topk;
  if (size > std::numeric_limits<std::int32_t>::max()) {
    throw Error(Code::RouteCountMismatch)
        .at("tokens", routes.tokens)
        .at("topk", routes.topk)
        .expected("at most 2147483647 routes on a rank")
        .found(size);
  }
  check_column(routes, "ids", routes.experts.size(), size);
  check_column(routes, "gates", routes.gates.size(), size);
}

}  // namespace waybill
