// A placement's own tables in the names of the files, and the small placements of the text's
// introduction.
#pragma once

#include <optional>
#include <string_view>

#include "conformance/check.h"

namespace waybill::conformance {

Json slots_by_expert(const Placement& placement);  // rho
Json slots_by_rank(const Placement& placement);
std::optional<SlotId> slot_named(const Placement& placement, std::string_view name);

void check_intro_examples(Check& check, const Value& root);

}  // namespace waybill::conformance
