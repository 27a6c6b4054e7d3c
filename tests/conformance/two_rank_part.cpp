// two_rank_trace.json: one expert a rank, and why a row needs its whole identity (reference text
// 0x03E).
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "conformance/check.h"
#include "conformance/split_vectors.h"

namespace waybill::conformance {
namespace {

// Experts by the rank that owns them.
std::vector<std::vector<std::int32_t>> owned(const Value& owners, std::size_t ranks) {
  std::vector<std::vector<std::int32_t>> lists(ranks);
  for (std::size_t expert = 0; expert < owners.members().size(); ++expert) {
    const Value owner = owners.at(std::to_string(expert));
    const std::int32_t rank = owner.id();
    if (rank < 0 || std::cmp_greater_equal(rank, ranks)) {
      throw owner.error(Code::RankOutsideGroup).found(rank);
    }
    lists[static_cast<std::size_t>(rank)].push_back(static_cast<std::int32_t>(expert));
  }
  return lists;
}

SlotId only_slot(const Placement& placement, std::int32_t expert, const Value& at) {
  if (expert < 0 || expert >= placement.experts()) {
    throw at.error(Code::LogicalExpertMismatch)
        .expected(fmt::format("an expert below {}", placement.experts()))
        .found(expert);
  }
  return placement.replicas(ExpertId{expert}).front();
}

Problem read_two_ranks(const Value& root) {
  Problem problem;
  const std::vector<std::int32_t> tokens = root.at("shape").at("tokens_per_rank").ids();
  const auto lists = owned(root.at("owners"), tokens.size());
  problem.placement = std::make_shared<const Placement>(
      Placement::from_lists(PlacementVersion("two-rank"),
                            static_cast<std::int32_t>(root.at("owners").members().size()), lists));
  std::vector<RouteRow> rows;
  std::int32_t topk = 0;
  for (const Value& route : root.at("routes").elements()) {
    rows.push_back(read_route(route));
    topk = std::max(topk, rows.back().slot + 1);
  }
  place_routes(problem, rows, tokens, topk);
  for (const Value& route : root.at("routes").elements()) {
    problem.assign(route.at("id").text(),
                   only_slot(*problem.placement, route.at("logical_expert").id(), route).value);
  }
  return problem;
}

void check_two_rank_shape(Report& report, const Value& root, const Problem& problem) {
  const Value shape = root.at("shape");
  Json routes = root.at("routes").elements().size();
  report.expect(shape, "P", problem.ranks(), {Code::GroupShapeMismatch});
  report.expect(shape, "E", problem.placement->experts(), {Code::LogicalCountMismatch});
  report.expect(shape, "k", problem.topk, {Code::RouteCountMismatch});
  report.expect(shape, "R", routes, {Code::RouteCountMismatch});
  const Value each = shape.at("routes_per_rank");  // one number where all ranks hold equally many
  Json per_rank = Json::array();
  for (const Origin& origin : problem.origins) {
    per_rank.push_back(origin.tokens * problem.topk);
    if (!each.json().is_array()) report.expect(each, per_rank.back(), {Code::RouteCountMismatch});
  }
  if (each.json().is_array()) report.expect(each, per_rank, {Code::RouteCountMismatch});
}

void check_two_rank_rows(Report& report, const Value& root) {
  std::int64_t position = 0;
  std::vector<RouteIdentity> identities;
  for (const Value& route : root.at("routes").elements()) {
    const std::string expert = std::to_string(route.at("logical_expert").id());
    report.expect(route, "position", position++, {Code::RouteIdentityCollision});
    report.expect(route, "destination_rank", root.at("owners").at(expert).json(),
                  {Code::DestinationRankMismatch});
    identities.push_back({Rank{route.at("source_rank").id()}, TokenRow{route.at("token").id()},
                          RouteSlot{route.at("route_slot").id()}});
    report.expect_that(
        identities.size() == 1 || identities[identities.size() - 2] < identities.back(),
        Code::RouteIdentityCollision, route, "semantic order");
  }
}

void check_two_rank_layout(Report& report, const Value& root, const Trace& trace) {
  Json kept = Json::array(), sent = Json::array();
  for (std::int32_t rank = 0; rank < trace.group().size(); ++rank) {
    const std::int32_t local = trace.plan(rank).send_count(trace.group().peer_of(Rank{rank}));
    kept.push_back(local);
    sent.push_back(trace.plan(rank).rows() - local);
  }
  expect_splits(report, root, "count_matrix", trace.send_counts(), {Code::CountMatrixMismatch});
  report.expect(root, "kept_locally", kept, {Code::RemoteRowMismatch});
  report.expect(root, "sent_remote", sent, {Code::RemoteRowMismatch});
  report.expect(root, "send_offsets", trace.send_offsets(), {Code::SendOffsetMismatch});
  report.expect(root, "send_order", trace.send_order(), {Code::SendOrderMismatch});
  expect_splits(report, root, "recv_splits", trace.recv_counts(), {Code::RecvSplitMismatch});
  report.expect(root, "receive_order", trace.receive_order(), {Code::ReceiveOrderMismatch});
}

// Rows under a key of fewer fields: what the key leaves out reads as 0.
void check_key(Report& report, const Value& root, const Value& stated) {
  const std::vector<std::string> fields = stated.at("key").texts();
  const auto has = [&](std::string_view field) {
    return std::find(fields.begin(), fields.end(), field) != fields.end();
  };
  constexpr std::array known{"origin_rank", "token", "route_slot"};
  for (const Value& field : stated.at("key").elements()) {
    report.expect_that(std::find(known.begin(), known.end(), field.text()) != known.end(),
                       Code::RouteIdentityCollision, field, "a field of the identity");
  }
  std::vector<RouteIdentity> keyed;
  for (const Value& route : root.at("routes").elements()) {
    keyed.push_back({Rank{has("origin_rank") ? route.at("source_rank").id() : 0},
                     TokenRow{has("token") ? route.at("token").id() : 0},
                     RouteSlot{has("route_slot") ? route.at("route_slot").id() : 0}});
  }
  bool unique = true;
  try {
    check_route_identities(keyed);
  } catch (const Error&) {
    unique = false;
  }
  const auto code = {Code::RouteIdentityCollision};
  report.expect(stated, "distinct", std::set(keyed.begin(), keyed.end()).size(), code);
  report.expect(stated, "rows", keyed.size(), code);
  const std::string verdict = stated.at("verdict").text();
  report.expect_that(unique ? verdict == "accepted" : verdict.starts_with("rejected"),
                     Code::RouteIdentityCollision, stated.at("verdict"),
                     unique ? "accepted" : "rejected");
  if (!unique) {
    report.expect(stated, "error", name(Code::RouteIdentityCollision), code);
  } else if (const auto error = stated.find("error")) {
    report.violation(Code::RouteIdentityCollision, *error, "no error", error->json());
  }
}

void check_demo(Report& report, const Value& root, Problem problem) {
  const auto demo = root.find("demo_values");
  if (!demo) return;
  problem.width = 1;
  for (const Value& scale : demo->at("expert_scale").elements()) {
    problem.scales.push_back(static_cast<float>(scale.number()));
  }
  const auto gates = demo->at("gate_percent_by_slot").elements();
  if (std::cmp_not_equal(problem.scales.size(), problem.placement->experts()) ||
      std::cmp_not_equal(gates.size(), problem.topk)) {
    throw demo->error(Code::CombineMismatch).expected("a scale an expert and a gate a slot");
  }
  Json expected = Json::object();
  for (std::size_t rank = 0; rank < problem.origins.size(); ++rank) {
    Origin& origin = problem.origins[rank];
    for (std::int32_t token = 0; token < origin.tokens; ++token) {
      const Value hidden = demo->at("hidden").at(fmt::format("{}.{}", rank, token));
      origin.hidden.push_back(static_cast<float>(hidden.number()));
      for (std::size_t slot = 0; slot < gates.size(); ++slot) {
        origin.gates[static_cast<std::size_t>(token) * gates.size() + slot] =
            static_cast<float>(gates[slot].number());
      }
    }
  }
  const Trace trace(problem, ProcessGroup::identity(problem.ranks()));
  for (std::int32_t rank = 0; rank < problem.ranks(); ++rank) {
    std::int32_t token = 0;
    for (const auto& row : trace.combine(rank)) {
      expected[fmt::format("{}.{}", rank, token++)] = row.front();
    }
  }
  report.expect(*demo, "expected_percent", expected, {Code::CombineMismatch});
}

}  // namespace

void check_two_ranks(Check& check, const Value& root) {
  Report& report = check.report;
  for (const Value& key : root.at("key_collisions").elements()) {
    report.guard(key, [&] { check_key(report, root, key); });
  }
  report.guard(root, [&] { check_two_rank_rows(report, root); });
  const Problem problem = read_two_ranks(root);
  check_two_rank_shape(report, root, problem);
  check_two_rank_layout(report, root, Trace(problem, ProcessGroup::identity(problem.ranks())));
  report.guard(root, [&] { check_demo(report, root, problem); });
  report.expect(root, "return_identity",
                {"origin_rank", "origin_token", "route_slot", "gate_weight"},
                {Code::RouteIdentityCollision});
}

}  // namespace waybill::conformance
