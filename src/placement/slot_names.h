// Names of slots and replicas that nobody named.
#pragma once

#include <vector>

#include "waybill/placement.h"

namespace waybill {

// Slot i without a name becomes "q<i>"; a replica without one becomes "e<expert>-r<n>", n being its
// ordinal among the expert's slots.
void name_unnamed(std::vector<Slot>& slots);

}  // namespace waybill
