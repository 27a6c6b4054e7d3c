#include "placement/fixture.h"

#include <array>
#include <stdexcept>

namespace waybill::testing {
namespace {

std::string path_of(const std::string& file) {
  return std::string(WAYBILL_TEST_DATA) + "/conformance/" + file;
}

}  // namespace

JsonDocument conformance(const std::string& file) { return JsonDocument::read(path_of(file)); }

Topology fixture_topology() { return Topology::uniform(4, 2); }

Generation fixture_generation() {
  const std::array layers{LayerId{0}};
  const Topology topology = fixture_topology();
  return read_placement_manifest(path_of("placement_v17.json"), 4, 4, layers, &topology);
}

SlotId slot_named(const Placement& placement, std::string_view name) {
  for (std::int32_t q = 0; q < placement.slots(); ++q) {
    if (placement.slot(SlotId{q}).name == name) return SlotId{q};
  }
  throw std::out_of_range("no slot " + std::string(name));
}

}  // namespace waybill::testing
