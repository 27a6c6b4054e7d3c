// The families of list.def as functions, each defined in the file of its name.
#pragma once

#include "model/family.h"

namespace waybill::families {

#define WAYBILL_FAMILY(name) Family name();
#include "model/families/list.def"
#undef WAYBILL_FAMILY

}  // namespace waybill::families
