#include "exec/route_admission.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "waybill/error.h"
#include "waybill/selection.h"

namespace waybill {
namespace {

void check_shape(const RoutesView& routes, std::int32_t topk) {
  const auto wanted =
      static_cast<std::size_t>(routes.tokens) * static_cast<std::size_t>(routes.topk);
  if (routes.tokens < 0 || routes.topk != topk || routes.experts.size() != wanted ||
      routes.gates.size() != wanted) {
    throw Error(Code::RouteCountMismatch)
        .expected(fmt::format("ids and gates [T, {}]", topk))
        .found(fmt::format("[{}, {}] with {} ids and {} gates", routes.tokens, routes.topk,
                           routes.experts.size(), routes.gates.size()));
  }
}

}  // namespace

AdmittedRoutes admit(const RoutesView& routes, std::int32_t topk, std::int32_t experts) {
  check_shape(routes, topk);
  AdmittedRoutes admitted;
  admitted.expert_counts = count_experts(routes, experts);
  for (std::int32_t i = 0; i < routes.size(); ++i) {
    const RouteId route{i};
    if (routes.dropped(route) || std::isfinite(routes.gates[route.index()])) continue;
    throw Error(Code::GateNotFinite)
        .at("token", routes.token(route))
        .at("route_slot", routes.slot(route))
        .expected("a finite gate")
        .found(routes.gates[route.index()]);
  }
  admitted.admission.accepted = std::accumulate(admitted.expert_counts.begin(),
                                                admitted.expert_counts.end(), std::int64_t{0});
  admitted.admission.dropped = routes.size() - admitted.admission.accepted;
  return admitted;
}

}  // namespace waybill
