// The checks behind the manifests of topology.h's ranks and groups, reporting every fault.
#pragma once

#include "io/faults.h"
#include "io/json_document.h"
#include "waybill/topology_manifest.h"

namespace waybill {

inline constexpr std::string_view topology_schema = "waybill-topology-1";
inline constexpr std::string_view groups_schema = "waybill-groups-1";

// What a file states, checked. With faults that are kept, the result is only fit for more checks.
TopologyManifest read_topology_manifest(const JsonDocument& document, Faults& faults);
GroupsManifest read_groups_manifest(const JsonDocument& document, const TopologyManifest* topology,
                                    Faults& faults);

void check_topology(const TopologyManifest& manifest, Faults& faults);
// Groups by themselves, and against the topology that they were built for.
void check_group_table(const GroupTable& table, Faults& faults);
void check_groups_in(const GroupTable& table, const TopologyManifest& topology, Faults& faults);

}  // namespace waybill
