// identity.json: what the six namespaces hold, and the digest that freezes the semantic tuples.
#include <fmt/format.h>

#include "conformance/check.h"
#include "waybill/digest.h"

namespace waybill::conformance {
namespace {

Json fields_of(const Value& list, std::string_view field) {
  Json names = Json::array();
  for (const Value& entry : list.elements()) names.push_back(entry.at(field).json());
  return names;
}

// What a namespace holds by the routes and the placement, and the contract that binds it.
void check_namespace(Check& check, const Value& space, const Value& routes,
                     const Value& placement) {
  const std::string name = space.at("name").text();
  const auto expect = [&](const Json& derived, std::initializer_list<Code> codes) {
    check.report.expect(space, "fixture", derived, codes);
  };
  if (name == "logical_expert_id") {
    Json experts = Json::array();
    for (const Value& expert : routes.at("experts").elements()) {
      experts.push_back(fmt::format("E{}", expert.at("id").integer()));
    }
    expect(experts, {Code::NamespaceConfusion});
  } else if (name == "physical_slot_id") {
    expect(fields_of(placement.at("slots"), "id"), {Code::NamespaceConfusion});
  } else if (name == "replica_id") {
    expect(fields_of(placement.at("slots"), "replica"), {Code::ReplicaIdMismatch});
  } else if (name == "destination_rank") {
    expect(routes.at("process_group").at("member_ranks").json(), {Code::NamespaceConfusion});
  } else if (name == "process_group_id") {
    expect(Json::array({routes.at("process_group").at("id").json()}), {Code::ProcessGroupMismatch});
  } else if (name == "placement_checkpoint_version") {
    const auto fixture = space.at("fixture").elements();
    check.report.expect_that(fixture.size() == 2, Code::GenerationMismatch, space.at("fixture"),
                             "placement and checkpoint");
    if (fixture.size() != 2) return;
    check.report.expect(fixture[0], placement.at("placement_version").json(),
                        {Code::GenerationMismatch});
    check.report.expect(fixture[1], placement.at("checkpoint_version").json(),
                        {Code::CheckpointMismatch});
  } else {
    check.report.violation(Code::NamespaceConfusion, space.at("name"), "one of six namespaces",
                           name);
  }
}

// scope|route_id|partition|token|route_slot|logical_expert|gate_hundredths, one route a line.
std::string canonical_line(std::string_view scope, const Value& route) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}\n", scope, route.at("id").text(),
                     route.at("partition").integer(), route.at("token").integer(),
                     route.at("route_slot").integer(), route.at("logical_expert").integer(-1),
                     route.at("gate_hundredths").integer(-1'000'000'000));
}

void check_digest(Check& check, const Value& digest, const Value& routes) {
  const std::string first = digest.at("first_line").text();
  const std::string scope = first.substr(0, first.find('|'));
  std::string lines;
  for (const Value& route : routes.at("routes").elements()) lines += canonical_line(scope, route);
  const Code code = Code::SemanticDigestMismatch;
  check.report.expect(digest, "algorithm", "sha256", {code});
  check.report.expect(digest, "first_line", lines.substr(0, lines.find('\n')), {code});
  check.report.expect(digest, "bytes", lines.size(), {code});
  check.report.expect(digest, "sha256", sha256_hex(lines), {code});
}

}  // namespace

void check_identity(Check& check, const Value& root) {
  const auto routes = check.set.find("routes"), placement = check.set.find("placement");
  if (!routes || !placement) {
    check.report.unchecked(root.file() + ": needs routes and a placement");
    return;
  }
  for (const Value& space : root.at("namespaces").elements()) {
    check.report.guard(space, [&] { check_namespace(check, space, *routes, *placement); });
  }
  const Value digest = root.at("semantic_digest");
  check.report.guard(digest, [&] { check_digest(check, digest, *routes); });
}

}  // namespace waybill::conformance
