// routes.json: identity of every row, its agreement with the manifest's slot, and the rows and
// outputs that follow (reference text 0x01C, 0x03A1).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "conformance/check.h"
#include "conformance/row_values.h"

namespace waybill::conformance {
namespace {

constexpr auto identity_code = Code::RouteIdentityCollision;

std::string origin_name(std::int64_t rank, std::int64_t token) {
  return fmt::format("p{}.t{}", rank, token);
}

// Counts that the lists themselves give.
struct Shape {
  std::vector<std::int64_t> tokens, routes;  // [P]
  std::int64_t topk = 0;

  static std::int64_t sum(const std::vector<std::int64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  }
};

// Adds each entry's rank, which stands in `field`, to its count.
void count_by_rank(const Value& list, std::string_view field, std::vector<std::int64_t>& counts) {
  for (const Value& row : list.elements()) {
    const std::int32_t rank = row.at(field).id();
    if (rank < 0 || std::cmp_greater_equal(rank, counts.size())) {
      throw row.at(field).error(Code::RankOutsideGroup).found(rank);
    }
    ++counts[static_cast<std::size_t>(rank)];
  }
}

Shape read_shape(const Value& root) {
  Shape shape;
  const std::size_t ranks = root.at("process_group").at("member_ranks").elements().size();
  shape.tokens.assign(ranks, 0);
  shape.routes.assign(ranks, 0);
  count_by_rank(root.at("hidden"), "rank", shape.tokens);
  count_by_rank(root.at("routes"), "source_rank", shape.routes);
  for (const Value& route : root.at("routes").elements()) {
    shape.topk = std::max(shape.topk, route.at("route_slot").integer() + 1);
  }
  if (const auto dropped = root.find("dropped_routes")) {
    for (const Value& route : dropped->elements()) {
      if (!route.json().is_object()) continue;
      shape.topk = std::max(shape.topk, route.at("route_slot").integer() + 1);
    }
  }
  return shape;
}

void check_route_shape(Check& check, const Value& root) {
  const Value stated = root.at("shape");
  const Shape shape = read_shape(root);
  Report& report = check.report;
  const auto code = {Code::RouteCountMismatch};
  report.expect(stated, "T", Shape::sum(shape.tokens), code);
  report.expect(stated, "k", shape.topk, code);
  report.expect(stated, "tokens_per_rank", shape.tokens, code);
  // Whether R counts dropped routes is the set's choice; that it counts the same rows everywhere
  // is not.
  std::vector<std::int64_t> routes = shape.routes;
  const auto total = stated.at("R");
  if (total.json() == Shape::sum(shape.tokens) * shape.topk) {
    for (std::size_t rank = 0; rank < routes.size(); ++rank) {
      routes[rank] = shape.tokens[rank] * shape.topk;
    }
  }
  report.expect(total, Shape::sum(routes), code);
  report.expect(stated, "routes_per_rank", routes, code);
  const auto rows = root.at("hidden").elements();
  const std::size_t width = rows.empty() ? 0 : rows[0].at("row").elements().size();
  report.expect(stated, "d", width, {Code::ShapeMismatch});
  report.expect(stated, "E", root.at("experts").elements().size(), {Code::LogicalCountMismatch});
  report.expect(stated, "P", shape.tokens.size(), {Code::GroupShapeMismatch});
  if (const auto placement = check.set.find("placement")) {
    report.expect(stated, "Q", placement->at("slots").elements().size(), {Code::SlotCountMismatch});
  }
}

void check_route_labels(Check& check, const Value& root) {
  if (const auto placement = check.set.find("placement")) {
    check.report.expect(root, "placement", placement->at("placement_version").json(),
                        {Code::GenerationMismatch});
    check.report.expect(root, "checkpoint", placement->at("checkpoint_version").json(),
                        {Code::CheckpointMismatch});
  }
}

// Every rank is a member, also without rows; this file's axes are the ranks in order.
void check_group(Check& check, const Value& root) {
  const Value group = root.at("process_group");
  const std::vector<std::int32_t> members = group.at("member_ranks").ids();
  process_group(group.at("id").text(), members);
  std::vector<std::int32_t> sorted = members;
  std::sort(sorted.begin(), sorted.end());
  Json ascending = Json::array();
  for (std::size_t rank = 0; rank < sorted.size(); ++rank) ascending.push_back(rank);
  check.report.expect(group.at("member_ranks"), ascending, {Code::GroupShapeMismatch});
  check.report.expect(group, "axis_order", ascending, {Code::GroupShapeMismatch});
}

void check_hidden(Check& check, const Value& root) {
  std::map<std::int64_t, std::int64_t> next;
  for (const Value& row : root.at("hidden").elements()) {
    const std::int64_t rank = row.at("rank").integer();
    check.report.expect(row, "token", next[rank]++, {identity_code});
    check.report.expect(row, "partition", rank, {identity_code});
    check.report.expect(row, "origin", origin_name(rank, row.at("token").integer()),
                        {identity_code});
  }
  std::int64_t expert = 0;
  for (const Value& row : root.at("experts").elements()) {
    check.report.expect(row, "id", expert++, {Code::LogicalExpertMismatch});
  }
}

// A row's fields that follow from its other fields and its place in the list.
void check_row(Check& check, const Value& root, const Value& route, std::int64_t position) {
  Report& report = check.report;
  const std::int64_t rank = route.at("source_rank").integer();
  report.expect(route, "position", position, {identity_code});
  report.expect(route, "partition", rank, {identity_code});
  report.expect(route, "origin", origin_name(rank, route.at("token").integer()), {identity_code});
  const Value gate = route.at("gate");
  const auto hundredths = static_cast<double>(route.at("gate_hundredths").integer(-1'000'000));
  report.expect_that(std::abs(gate.number() * 100 - hundredths) < 1e-9,
                     Code::SemanticDigestMismatch, gate, hundredths / 100);
  report.expect(route, "checkpoint", root.at("checkpoint").json(), {Code::CheckpointMismatch});
  report.expect(route, "placement", root.at("placement").json(), {Code::GenerationMismatch});
  report.expect(route, "process_group", root.at("process_group").at("id").json(),
                {Code::ProcessGroupMismatch});
}

// The admission checks of 0x03A1: a row and the slot that it names say the same.
void check_admission(Check& check, const Value& route, const Manifest& manifest,
                     const ProcessGroup& group) {
  Report& report = check.report;
  report.guard(route.at("source_rank"), [&] { group.peer_of(Rank{route.at("source_rank").id()}); });
  report.guard(route.at("destination_rank"),
               [&] { group.peer_of(Rank{route.at("destination_rank").id()}); });
  const Slot* slot = manifest.slot(route.at("slot").text());
  if (slot == nullptr) {
    report.violation(Code::SlotOutsideReplicaSet, route.at("slot"), "a slot of the manifest",
                     route.at("slot").json());
    return;
  }
  if (route.at("logical_expert").id() != slot->expert.value) {
    report.violation(Code::LogicalExpertMismatch, route.at("logical_expert"), slot->expert.value,
                     route.at("logical_expert").json());
    report.violation(Code::SlotOutsideReplicaSet, route.at("slot"),
                     fmt::format("a slot of expert {}", shown(route.at("logical_expert").json())),
                     slot->name);
  }
  report.expect(route, "replica", slot->replica, {Code::ReplicaIdMismatch});
  report.expect(route, "destination_rank", slot->rank.value, {Code::DestinationRankMismatch});
  report.expect(route, "domain", slot->domain, {Code::DomainRankMismatch});
}

void check_route_rows(Check& check, const Value& root) {
  const Value list = root.at("routes");
  std::vector<RouteIdentity> identities;
  std::set<std::string> ids;
  std::int64_t position = 0;
  for (const Value& route : list.elements()) {
    check.report.guard(route, [&] { check_row(check, root, route, position); });
    ++position;
    const std::string id = route.at("id").text();
    check.report.expect_that(ids.insert(id).second, identity_code, route.at("id"), "each id once");
    identities.push_back({Rank{route.at("source_rank").id()}, TokenRow{route.at("token").id()},
                          RouteSlot{route.at("route_slot").id()}});
    if (identities.size() > 1) {
      check.report.expect_that(identities[identities.size() - 2] < identities.back(), identity_code,
                               route, "semantic order");
    }
  }
  check.report.guard(list, [&] { check_route_identities(identities); });
  if (const auto placement = check.set.find("placement")) {
    const Manifest manifest = read_manifest(*placement);
    const Value group = root.at("process_group");
    const ProcessGroup members =
        process_group(group.at("id").text(), group.at("member_ranks").ids());
    for (const Value& route : list.elements()) {
      if (route.at("logical_expert").id() == dropped_route) continue;
      check.report.guard(route, [&] { check_admission(check, route, manifest, members); });
    }
  }
}

// What the router gave: the frozen columns that the rows were made from.
void check_router_tensors(Check& check, const Value& root) {
  const Problem& problem = *check.problem;
  Json ids = Json::object(), weights = Json::object();
  for (std::size_t rank = 0; rank < problem.origins.size(); ++rank) {
    const Origin& origin = problem.origins[rank];
    const std::string partition = fmt::format("p{}", rank);
    const bool stated = root.at("router_tensors").at("topk_ids").find(partition).has_value();
    if (origin.tokens == 0 && !stated) continue;
    Json& rank_ids = ids[partition] = Json::array();
    Json& rank_weights = weights[partition] = Json::array();
    for (std::int32_t token = 0; token < origin.tokens; ++token) {
      const auto first = static_cast<std::ptrdiff_t>(token) * problem.topk;
      rank_ids.push_back(std::vector<std::int32_t>(origin.experts.begin() + first,
                                                   origin.experts.begin() + first + problem.topk));
      rank_weights.push_back(std::vector<float>(origin.gates.begin() + first,
                                                origin.gates.begin() + first + problem.topk));
    }
  }
  const Value stated = root.at("router_tensors");
  check.report.expect(stated, "topk_ids", ids, {Code::SemanticDigestMismatch});
  check.report.expect(stated, "topk_weights_hundredths", weights, {Code::SemanticDigestMismatch});
}

void check_route_values(Check& check, const Value& list, const RowsByRoute& derived) {
  const auto entries = list.elements();
  check.report.expect_that(entries.size() == derived.size(), Code::CombineMismatch, list,
                           derived.size());
  for (const Value& entry : entries) {
    check.report.guard(entry, [&] {
      const auto row = derived.find(entry.at("id").text());
      check.report.expect_that(row != derived.end(), Code::CombineMismatch, entry.at("id"),
                               "an accepted route");
      if (row == derived.end()) return;
      expect_row(check.report, entry, "row", row->second, 1, Code::CombineMismatch);
    });
  }
}

// "<origin>_without_<route>" and "<origin>_with_<route>_on_expert_<e>": the token's output after
// that fault, which must not be its output.
std::vector<double> faulty_output(const Check& check, const Value& at, const std::string& key) {
  Problem problem = *check.problem;
  const bool lost = key.find("_without_") != std::string::npos;
  const std::string origin = key.substr(0, key.find('_'));
  std::int32_t rank = -1, token = -1, expert = dropped_route;
  const std::size_t named = key.find(lost ? "_without_" : "_with_");
  if (named == std::string::npos || std::sscanf(origin.c_str(), "p%d.t%d", &rank, &token) != 2) {
    throw at.error(Code::CombineMismatch).expected("a fault of one route").found(key);
  }
  std::string route = key.substr(named + (lost ? 9 : 6));
  if (const std::size_t on = route.find("_on_expert_"); on != std::string::npos) {
    if (std::sscanf(route.c_str() + on, "_on_expert_%d", &expert) != 1) expert = -1;
    route = route.substr(0, on);
  }
  if (rank < 0 || rank >= problem.ranks() || expert >= problem.placement->experts()) {
    throw at.error(Code::CombineMismatch).expected("a token and an expert").found(key);
  }
  Origin& rows = problem.origins[static_cast<std::size_t>(rank)];
  const auto place = std::find(rows.ids.begin(), rows.ids.end(), route);
  if (token < 0 || token >= rows.tokens || place == rows.ids.end()) {
    throw at.error(Code::CombineMismatch).expected("a route of the token").found(key);
  }
  const auto index = static_cast<std::size_t>(place - rows.ids.begin());
  rows.experts[index] = lost ? dropped_route : expert;
  rows.assigned[index] =
      lost ? dropped_route : problem.placement->replicas(ExpertId{expert}).front().value;
  return Trace(problem, check.trace->group()).combine(rank)[static_cast<std::size_t>(token)];
}

void check_partial_sums(Check& check, const Value& root) {
  const auto sums = root.find("partial_sums_that_must_not_be_accepted");
  if (!sums) return;
  for (const auto& [key, stated] : sums->members()) {
    if (key == "note") continue;
    check.report.guard(stated, [&, &key = key, &stated = stated] {
      expect_row(check.report, *sums, key, faulty_output(check, stated, key), 1,
                 Code::CombineMismatch);
    });
  }
}

}  // namespace

void check_routes(Check& check, const Value& root) {
  for (const auto part :
       {check_route_shape, check_route_labels, check_group, check_hidden, check_route_rows}) {
    check.report.guard(root, [&] { part(check, root); });
  }
  if (check.trace == nullptr) {
    check.report.unchecked(root.file() + ": rows and outputs, which need a placement that agrees");
    return;
  }
  check.report.guard(root, [&] { check_router_tensors(check, root); });
  check.report.guard(root, [&] {
    check_route_values(check, root.at("expert_rows"),
                       expert_rows(*check.problem, check.trace->group()));
    check_route_values(check, root.at("weighted_rows_hundredths"),
                       weighted_rows(*check.problem, check.trace->group()));
    expect_outputs(check.report, root.at("outputs"), *check.trace);
  });
  check.report.guard(root, [&] { check_partial_sums(check, root); });
}

}  // namespace waybill::conformance
