// What a plan refuses to be built from.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "plan/host_plan_builder.h"
#include "plan/table_checks.h"
#include "waybill/error.h"

namespace waybill {
namespace {

// Leaves room for a rank's routes, so that no ordinal overflows.
constexpr std::int64_t kOrdinalLimit = std::numeric_limits<std::int64_t>::max() / 2;

void check_column(std::string_view field, std::size_t found, std::size_t expected) {
  if (found == expected) return;
  throw Error(Code::InvalidValue)
      .at("selection table", field)
      .expected(fmt::format("{} entries", expected))
      .found(found);
}

void check_offsets(const SelectionTable& table, std::int32_t experts) {
  check_column("offsets", table.offsets.size(), static_cast<std::size_t>(experts) + 1);
  if (table.offsets[0] != 0) {
    throw Error(Code::InvalidValue)
        .at("selection table", "offsets")
        .expected("0 first")
        .found(table.offsets[0]);
  }
  for (std::size_t e = 0; e + 1 < table.offsets.size(); ++e) {
    if (table.offsets[e] <= table.offsets[e + 1]) continue;
    throw Error(Code::InvalidValue)
        .at("selection table", "offsets")
        .at("expert", e)
        .expected(fmt::format("at most {}", table.offsets[e + 1]))
        .found(table.offsets[e]);
  }
  check_column("candidates", table.candidates.size(), table.offsets.back());
}

void check_ordinals(const SelectionTable& table, std::int32_t experts) {
  check_column("ordinal_base", table.ordinal_base.size(), experts);
  const auto bad = std::find_if(table.ordinal_base.begin(), table.ordinal_base.end(),
                                [](std::int64_t b) { return b < 0 || b > kOrdinalLimit; });
  if (bad != table.ordinal_base.end()) {
    throw Error(Code::InvalidValue)
        .at("selection table", "ordinal_base")
        .at("expert", bad - table.ordinal_base.begin())
        .expected("a count of routes")
        .found(*bad);
  }
  if (table.rule == SelectionRule::quota) {
    check_column("quota_end", table.quota_end.size(), table.candidates.size());
  }
}

}  // namespace

void check_columns(const SelectionTable& table, std::int32_t experts) {
  check_offsets(table, experts);
  if (table.rule != SelectionRule::hashed) check_ordinals(table, experts);
}

namespace {

Error at_route(Code code, const RoutesView& routes, std::int32_t route) {
  return Error(code)
      .at("token", routes.token(RouteId{route}))
      .at("route slot", routes.slot(RouteId{route}));
}

bool is_expert(std::int32_t id, std::int32_t experts) { return id >= 0 && id < experts; }

}  // namespace

void HostPlanBuilder::check_shape() const {
  const std::int64_t size = std::int64_t{routes_.tokens} * routes_.topk;
  if (routes_.tokens < 0 || routes_.topk < 0 || size > std::numeric_limits<std::int32_t>::max() ||
      static_cast<std::int64_t>(routes_.experts.size()) != size) {
    throw Error(Code::RouteCountMismatch)
        .at("tokens", routes_.tokens)
        .at("k", routes_.topk)
        .expected(fmt::format("{} expert ids, at most 2^31-1", size))
        .found(routes_.experts.size());
  }
  if (!group_.contains(source_)) {
    throw Error(Code::RankOutsideGroup).at("source rank", source_).at("group", group_.id());
  }
}

void HostPlanBuilder::check_table(const SelectionTable& table) const {
  check_columns(table, experts_);
  for (std::int32_t e = 0; e < experts_; ++e) {
    for (std::int32_t i = table.offsets[e]; i < table.offsets[e + 1]; ++i) {
      const SlotId slot = table.candidates[i];
      const bool known = slot.value >= 0 && slot.value < slots_;
      if (known && placement_.expert_of(slot).value == e) continue;
      throw Error(Code::SlotOutsideReplicaSet)
          .at("expert", e)
          .at("slot", slot)
          .expected("a slot of the expert")
          .found(known ? fmt::format("a slot of expert {}", placement_.expert_of(slot).value)
                       : "no slot of the placement");
    }
  }
}

void HostPlanBuilder::check_cardinality(const SelectionTable& table) const {
  for (std::int32_t e = 0; e < experts_; ++e) {
    const std::int32_t first = table.offsets[e], end = table.offsets[e + 1];
    const std::int32_t routes = plan_.expert_counts_[e];
    if (routes == 0) continue;
    if (first == end) {
      throw Error(Code::ReplicaCardinalityZero)
          .at("expert", e)
          .expected(fmt::format("a candidate for {} routes", routes))
          .found("none");
    }
    if (table.rule != SelectionRule::quota) continue;
    const std::int64_t last =
        *std::max_element(table.quota_end.begin() + first, table.quota_end.begin() + end);
    if (last >= table.ordinal_base[e] + routes) continue;
    throw Error(Code::ReplicaCardinalityZero)
        .at("expert", e)
        .expected(fmt::format("quotas up to ordinal {}", table.ordinal_base[e] + routes))
        .found(last);
  }
}

void HostPlanBuilder::check_assignment_size(std::span<const std::int32_t> assigned) const {
  if (assigned.size() == routes_.experts.size()) return;
  throw Error(Code::RouteCountMismatch)
      .at("column", "assigned slots")
      .expected(routes_.experts.size())
      .found(assigned.size());
}

void HostPlanBuilder::throw_first_slot_outside_group() const {
  std::int32_t q = 0;
  while (group_.contains(placement_.rank_of(SlotId{q}))) ++q;
  throw Error(Code::RankOutsideGroup)
      .at("slot", placement_.slot(SlotId{q}).name)
      .at("rank", placement_.rank_of(SlotId{q}))
      .at("group", group_.id());
}

void HostPlanBuilder::throw_first_bad_id() const {
  std::int32_t route = 0;
  while (routes_.experts[route] == dropped_route || is_expert(routes_.experts[route], experts_)) {
    ++route;
  }
  throw at_route(Code::ExpertIdOutOfRange, routes_, route)
      .expected(fmt::format("an id in [0, {}), or {}", experts_, dropped_route))
      .found(routes_.experts[route]);
}

void HostPlanBuilder::throw_first_refused(std::span<const std::int32_t> assigned) const {
  for (std::int32_t route = 0;; ++route) {
    const std::int32_t expert = routes_.experts[route];
    const std::int32_t slot = assigned[route];
    if (expert == dropped_route) {
      if (slot == dropped_route) continue;
      throw at_route(Code::RouteConservationMismatch, routes_, route)
          .expected("no slot for a dropped route")
          .found(slot);
    }
    if (!is_expert(expert, experts_)) throw_first_bad_id();
    if (slot == dropped_route) {
      throw at_route(Code::ReplicaCardinalityZero, routes_, route).at("expert", expert);
    }
    const bool known = slot >= 0 && slot < slots_;
    if (known && placement_.expert_of(SlotId{slot}).value == expert) continue;
    throw at_route(Code::SlotOutsideReplicaSet, routes_, route)
        .expected(fmt::format("a slot of expert {}", expert))
        .found(known ? placement_.slot(SlotId{slot}).name : std::to_string(slot));
  }
}

}  // namespace waybill
