// Manifests of placements, topologies and groups: one that is accepted reads back as the same text
// after it was written, and listing every fault finds the one that loading stops at.
#include "fuzz/target.h"
#include "placement/manifest_checks.h"
#include "topology/manifest_checks.h"

namespace waybill::fuzz {
namespace {

template <class Read, class Write>
void read_with(std::string_view text, Read read, Write write) {
  const JsonDocument document = JsonDocument::parse(text, "m.json");
  const Faults faults = Faults::collect([&](Faults& all) { read(document, all); });
  if (!faults.empty()) throw Error(faults.all().front());
  Faults first;
  const std::string written = write(read(document, first));
  require(write(read(JsonDocument::parse(written, "w.json"), first)) == written);
}

}  // namespace

void read(std::string_view bytes) {
  switch (take_kind(bytes, 3)) {
    case 0:
      read_with(
          bytes,
          [](const JsonDocument& document, Faults& faults) {
            return read_placement_manifest(document, {}, faults);
          },
          placement_manifest);
      break;
    case 1:
      read_with(
          bytes,
          [](const JsonDocument& document, Faults& faults) {
            return read_topology_manifest(document, faults);
          },
          topology_manifest);
      break;
    default:
      read_with(
          bytes,
          [](const JsonDocument& document, Faults& faults) {
            return read_groups_manifest(document, nullptr, faults);
          },
          groups_manifest);
  }
}

}  // namespace waybill::fuzz
