// Manifests of placements, topologies and groups: one that is accepted reads back as the same text
// after it was written, and one without listed faults loads.
#include "fuzz/target.h"
#include "placement/manifest_checks.h"
#include "topology/manifest_checks.h"

namespace waybill::fuzz {
namespace {

// Loads, or lists every fault; the latter less often, being so much slower.
struct Mode {
  unsigned reader;
  bool lists_faults;
};

Mode take_mode(std::string_view& bytes) {
  const unsigned kind = take_kind(bytes, 12);
  return {kind % 3, kind >= 9};
}

template <class Read, class Write>
void read_with(std::string_view text, bool lists_faults, Read read, Write write) {
  const JsonDocument document = JsonDocument::parse(text, "m.json");
  if (lists_faults) {
    const Faults faults = Faults::collect([&](Faults& all) { read(document, all); });
    if (!faults.empty()) throw Error(faults.all().front());
  }
  Faults first;
  const std::string written = write(read(document, first));
  require(write(read(JsonDocument::parse(written, "w.json"), first)) == written);
}

}  // namespace

void read(std::string_view bytes) {
  const auto [reader, lists_faults] = take_mode(bytes);
  switch (reader) {
    case 0:
      read_with(
          bytes, lists_faults,
          [](const JsonDocument& document, Faults& faults) {
            return read_placement_manifest(document, {}, faults);
          },
          placement_manifest);
      break;
    case 1:
      read_with(
          bytes, lists_faults,
          [](const JsonDocument& document, Faults& faults) {
            return read_topology_manifest(document, faults);
          },
          topology_manifest);
      break;
    default:
      read_with(
          bytes, lists_faults,
          [](const JsonDocument& document, Faults& faults) {
            return read_groups_manifest(document, nullptr, faults);
          },
          groups_manifest);
  }
}

}  // namespace waybill::fuzz
