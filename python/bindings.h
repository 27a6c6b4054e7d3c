// What each source adds to the module waybill._core.
#pragma once

#include <nanobind/nanobind.h>

namespace waybill::python {

void bind_errors(nanobind::module_& module);
void bind_balance(nanobind::module_& module);
void bind_eplb(nanobind::module_& module);

}  // namespace waybill::python
