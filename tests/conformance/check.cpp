#include "conformance/check.h"

#include <fmt/format.h>

#include <array>
#include <optional>

namespace waybill::conformance {
namespace {

struct Kind {
  std::string_view name;
  void (*check)(Check&, const Value&);
  bool needs_plans;  // of routes.json over the placement
};

constexpr std::array kinds{
    Kind{"identity", check_identity, false},   Kind{"routes", check_routes, false},
    Kind{"placement", check_placement, false}, Kind{"dispatch", check_dispatch, true},
    Kind{"bytes", check_bytes, true},          Kind{"two-rank", check_two_ranks, false},
    Kind{"topology", check_topology, false},
};

const Kind* find_kind(std::string_view name) {
  for (const Kind& kind : kinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::vector<std::int32_t> ascending(std::int32_t ranks) {
  std::vector<std::int32_t> order;
  for (std::int32_t rank = 0; rank < ranks; ++rank) order.push_back(rank);
  return order;
}

void check_one(Check& check, const std::string& file, const Json& document) {
  const std::string name = FixtureSet::kind(document);
  const Kind* kind = find_kind(name);
  if (name.empty()) {
    check.report.unchecked(fmt::format("{}: no schema of a known form", file));
  } else if (kind == nullptr) {
    check.report.unchecked(fmt::format("{}: {}", file, name));
  } else if (kind->needs_plans && check.trace == nullptr) {
    check.report.unchecked(fmt::format("{}: needs routes and a placement that agree", file));
  } else {
    const Value root(document, file);
    check.report.guard(root, [&] { kind->check(check, root); });
  }
}

// Plans the set's routes, then hands the check to `body`.
template <class Body>
Report with_plans(const FixtureSet& set, const Body& body) {
  Report report;
  std::optional<Problem> problem;
  std::optional<Trace> trace;
  const auto routes = set.find("routes");
  if (routes && set.find("placement")) {
    report.guard(routes->find("routes").value_or(*routes), [&] {
      problem = read_problem(set);
      trace.emplace(*problem, process_group(routes->at("process_group").at("id").text(),
                                            ascending(problem->ranks())));
    });
  }
  Check check{set, report, trace ? &*problem : nullptr, trace ? &*trace : nullptr};
  body(check);
  return report;
}

}  // namespace

Report check_set(const FixtureSet& set) {
  return with_plans(set, [&](Check& check) {
    for (const auto& [file, document] : set.files()) check_one(check, file, document);
  });
}

Report check_file(const FixtureSet& set, const std::string& file) {
  return with_plans(set, [&](Check& check) { check_one(check, file, set.files().at(file)); });
}

}  // namespace waybill::conformance
