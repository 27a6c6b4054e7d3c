// The primary inputs of a set as the library takes them: routes, hidden rows, expert scales, the
// placement and its ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "conformance/fixture_set.h"
#include "waybill/placement.h"
#include "waybill/routes.h"
#include "waybill/topology.h"

namespace waybill::conformance {

// What placement_v17.json states, before anything in it is checked.
struct Manifest {
  PlacementVersion version;
  std::int64_t generation = 0;
  CheckpointVersion checkpoint;
  ProcessGroupId group;
  std::int32_t experts = 0, ranks = 0;
  std::vector<Slot> slots;

  const Slot* slot(std::string_view name) const;
};
Manifest read_manifest(const Value& root);

// Ranks by node as the manifest's domains list them. DomainNotPartition.
Topology read_domains(const Value& domains);

// The members of routes.json's process group in the order `order` of the ranks.
ProcessGroup process_group(const std::string& id, const std::vector<std::int32_t>& order,
                           std::uint64_t epoch = 0);

// The routes of one origin rank as columns over token and route slot, dropped ones included.
struct Origin {
  std::int32_t tokens = 0;
  std::vector<std::string> ids;        // [T_l * k] empty: dropped
  std::vector<std::int32_t> experts;   // [T_l * k]
  std::vector<float> gates;            // [T_l * k] in hundredths, so that sums are exact
  std::vector<std::int32_t> assigned;  // [T_l * k] slot, -1: dropped
  std::vector<float> hidden;           // [T_l, d]

  RoutesView routes(std::int32_t topk) const { return {tokens, topk, experts, gates}; }
};

struct Problem {
  std::shared_ptr<const Placement> placement;
  std::int32_t topk = 0;
  std::int32_t width = 0;       // d
  std::vector<Origin> origins;  // [P] by global rank
  std::vector<float> scales;    // [E] expert e is x -> scale * x

  std::int32_t ranks() const { return static_cast<std::int32_t>(origins.size()); }
  // Gives the named route another slot.
  void assign(const std::string& route, std::int32_t slot);
  std::int64_t accepted() const;
};

// One row of a list of routes.
struct RouteRow {
  std::string id;
  std::int32_t rank, token, slot, expert;
};
RouteRow read_route(const Value& route);

// Lays rows out by (rank, token, slot). RouteIdentityCollision where two rows meet,
// RouteCountMismatch for a place that no row takes, RankOutsideGroup.
void place_routes(Problem& problem, const std::vector<RouteRow>& rows,
                  const std::vector<std::int32_t>& tokens_per_rank, std::int32_t topk);

// routes.json over the placement; any fault in them is the library's own Error.
Problem read_problem(const FixtureSet& set);

}  // namespace waybill::conformance
