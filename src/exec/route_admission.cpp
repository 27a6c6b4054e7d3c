#include "exec/route_admission.h"

#include <cmath>
#include <numeric>

#include "route/route_shape.h"
#include "waybill/error.h"
#include "waybill/selection.h"

namespace waybill {
void check_shape(const RoutesView& routes, std::int32_t topk) {
  if (routes.topk != topk) {
    throw Error(Code::RouteCountMismatch).at("field", "topk").expected(topk).found(routes.topk);
  }
  check_shape(routes);
}

AdmittedRoutes admit(const RoutesView& routes, std::int32_t experts) {
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
