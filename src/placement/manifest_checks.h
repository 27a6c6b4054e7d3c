// Reading a placement manifest with every fault reported.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "io/faults.h"
#include "io/json_document.h"
#include "waybill/placement.h"

namespace waybill {

inline constexpr std::string_view placement_schema = "waybill-placement-1";

// The model and the ranks that a manifest is read for. What isn't known is taken from the manifest:
// the counts that it states, else its largest ids; the layers that it lists, else layer 0.
struct ManifestUse {
  std::optional<std::int32_t> experts = {}, ranks = {};
  std::optional<std::span<const LayerId>> layers = {};
  const Topology* topology = nullptr;
};

// With faults that are kept, the result lacks the layers that have some.
Generation read_placement_manifest(const JsonDocument& document, const ManifestUse& use,
                                   Faults& faults);

}  // namespace waybill
