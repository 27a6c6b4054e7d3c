// Whether a view's columns hold the routes that it states.
#pragma once

#include "waybill/routes.h"

namespace waybill {

// InvalidValue for tokens below 0 or k below 1; RouteCountMismatch for more than 2^31-1 routes or
// for ids or gates that aren't [T, k].
void check_shape(const RoutesView& routes);

}  // namespace waybill
