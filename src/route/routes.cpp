#include "waybill/routes.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "waybill/error.h"

namespace waybill {
namespace {

void check_sizes(std::int32_t tokens, std::int32_t topk, std::int32_t experts, std::size_t ids,
                 std::size_t gates) {
  if (experts < 1) {
    throw Error(Code::InvalidValue).at("field", "experts").expected("at least 1").found(experts);
  }
  if (tokens < 0) {
    throw Error(Code::InvalidValue).at("field", "tokens").expected("at least 0").found(tokens);
  }
  if (topk < 1) {
    throw Error(Code::InvalidValue).at("field", "topk").expected("at least 1").found(topk);
  }
  const std::int64_t routes = std::int64_t{tokens} * topk;
  if (routes > std::numeric_limits<std::int32_t>::max()) {
    throw Error(Code::RouteCountMismatch)
        .at("tokens", tokens)
        .at("topk", topk)
        .expected("at most 2147483647 routes on a rank")
        .found(routes);
  }
  const auto wanted = static_cast<std::size_t>(routes);
  if (ids != wanted || gates != wanted) {
    throw Error(Code::RouteCountMismatch)
        .at("field", ids != wanted ? "ids" : "gates")
        .expected(fmt::format("[{}, {}]: {} values", tokens, topk, wanted))
        .found(ids != wanted ? ids : gates);
  }
}

Error route_error(Code code, const RoutesView& routes, RouteId r) {
  return Error(code).at("token", routes.token(r)).at("route_slot", routes.slot(r));
}

}  // namespace

Routes::Routes(std::int32_t tokens, std::int32_t topk, std::int32_t experts,
               std::span<const std::int32_t> ids, std::span<const float> gates, BadIdPolicy policy)
    : tokens_(tokens), topk_(topk) {
  check_sizes(tokens, topk, experts, ids.size(), gates.size());
  experts_.assign(ids.begin(), ids.end());
  gates_.assign(gates.begin(), gates.end());

  for (std::size_t i = 0; i < experts_.size(); ++i) {
    const bool in_range = experts_[i] >= 0 && experts_[i] < experts;
    if (in_range && std::isfinite(gates_[i])) continue;
    const RouteId r{static_cast<std::int32_t>(i)};
    if (in_range) {
      throw route_error(Code::GateNotFinite, view(), r)
          .at("expert", experts_[i])
          .expected("a finite gate")
          .found(gates_[i]);
    }
    if (experts_[i] != dropped_route) {
      if (policy == BadIdPolicy::error) {
        throw route_error(Code::ExpertIdOutOfRange, view(), r)
            .expected(fmt::format("an expert in [0, {}), or -1", experts))
            .found(experts_[i]);
      }
      ++admission_.out_of_range;
    }
    ++admission_.dropped;
    experts_[i] = dropped_route;
    gates_[i] = 0.0F;  // nothing may come to depend on a gate that wasn't checked
  }
  admission_.accepted = view().size() - admission_.dropped;
}

}  // namespace waybill
