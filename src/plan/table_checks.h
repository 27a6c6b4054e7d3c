// What holds of a selection table by itself, for plans on the host and on a device.
#pragma once

#include <cstdint>

#include "waybill/selection.h"

namespace waybill {

// InvalidValue, naming the column, when the columns don't fit each other or `experts`, or when an
// ordinal is no count of routes.
void check_columns(const SelectionTable& table, std::int32_t experts);

}  // namespace waybill
