// What a rank must know of its routes before it may agree to a step.
#pragma once

#include <cstdint>
#include <vector>

#include "waybill/column.h"
#include "waybill/routes.h"

namespace waybill {

struct AdmittedRoutes {
  Admission admission;
  std::vector<std::int64_t> expert_counts;  // [E] accepted routes of each logical expert
};

// RouteCountMismatch for another k than the layer's; what the columns' own shape throws.
void check_shape(const RoutesView& routes, std::int32_t topk);

// BadIdPolicy::drop: how many ids lie outside [0, E) and aren't dropped_route. If any does, the
// view then shows a copy in `ids`, where they are.
std::int64_t drop_bad_ids(RoutesView& routes, std::int32_t experts, Column& ids);

// ExpertIdOutOfRange and GateNotFinite with token and route slot. A dropped route's gate isn't
// read. The shape has been checked.
AdmittedRoutes admit(const RoutesView& routes, std::int32_t experts);

}  // namespace waybill
