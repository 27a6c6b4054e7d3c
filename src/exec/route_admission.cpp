#include "exec/route_admission.h"

#include <algorithm>
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

std::int64_t drop_bad_ids(RoutesView& routes, std::int32_t experts, Column& ids) {
  const auto is_bad = [experts](std::int32_t id) {
    return id != dropped_route && (id < 0 || id >= experts);
  };
  const std::int64_t bad = std::ranges::count_if(routes.experts, is_bad);
  if (bad == 0) return 0;
  ids.assign(routes.experts.begin(), routes.experts.end());
  std::ranges::replace_if(ids, is_bad, dropped_route);
  routes.experts = ids;
  return bad;
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
