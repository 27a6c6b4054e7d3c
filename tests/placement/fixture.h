// The six-slot placement of the reference text (0x02B1) and the file that describes it.
#pragma once

#include "io/json_document.h"
#include "waybill/placement.h"

namespace waybill::testing {

// placement_v17.json, routes.json, …
JsonDocument conformance(const std::string& file);
// Two nodes of two ranks.
Topology fixture_topology();
// placement-v17 as the library's own reader sees it, for layer 0.
Generation fixture_generation();
// The slot of that name.
SlotId slot_named(const Placement& placement, std::string_view name);

}  // namespace waybill::testing
