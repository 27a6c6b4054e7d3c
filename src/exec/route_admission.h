// What a rank must know of its routes before it may agree to a step.
#pragma once

#include <cstdint>
#include <vector>

#include "waybill/routes.h"

namespace waybill {

struct AdmittedRoutes {
  Admission admission;
  std::vector<std::int64_t> expert_counts;  // [E] accepted routes of each logical expert
};

// RouteCountMismatch (another k, columns of another length), ExpertIdOutOfRange and GateNotFinite
// with token and route slot. A dropped route's gate isn't read.
AdmittedRoutes admit(const RoutesView& routes, std::int32_t topk, std::int32_t experts);

}  // namespace waybill
