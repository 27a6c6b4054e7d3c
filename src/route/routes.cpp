#include "waybill/routes.h"

#include <fmt/format.h>

#include <cmath>

#include "route/route_shape.h"
#include "waybill/error.h"

namespace waybill {
namespace {

Error route_error(Code code, const RoutesView& routes, RouteId r) {
  return Error(code).at("token", routes.token(r)).at("route_slot", routes.slot(r));
}

}  // namespace

Routes::Routes(std::int32_t tokens, std::int32_t topk, std::int32_t experts,
               std::span<const std::int32_t> ids, std::span<const float> gates, BadIdPolicy policy)
    : tokens_(tokens), topk_(topk) {
  if (experts < 1) {
    throw Error(Code::InvalidValue).at("field", "experts").expected("at least 1").found(experts);
  }
  check_shape({tokens, topk, ids, gates});
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
