// Every number, name and flag that a covered file derives is checked: changing any one of them
// gives a violation. What isn't derived is listed here, and by nothing else.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/check.h"

namespace waybill::conformance {
namespace {

// Pointers of values that say nothing about this set: "*" is one step, a pattern covers what lies
// below it.
constexpr std::array prose{
    "schema", "provenance", "*/note", "*/*/note", "*/*/*/note",
    // identity: what the namespaces, tuples and scopes are, in words and fixed names
    "identity/namespaces/*/name", "identity/namespaces/*/cxx_tag",
    "identity/namespaces/*/stable_within", "identity/namespaces/*/condition",
    "identity/namespaces/*/may_change_without_changing_the_model",
    "identity/related_coordinates_that_are_not_interchangeable", "identity/semantic_tuple",
    "identity/physical_tuple", "identity/semantic_digest/reference_field_count",
    "identity/semantic_digest/reference_fields_listed",
    "identity/semantic_digest/reference_digest_listed", "identity/semantic_digest/rule",
    "identity/semantic_digest/canonical_encoding", "identity/minimum_route_identity",
    "identity/runtime_scope", "identity/state_version_objects", "identity/invariants",
    "identity/firewall", "identity/pipeline", "identity/ownership", "identity/symbols",
    "identity/symbol_collisions",
    // routes
    "routes/experts/*/transform", "routes/admission_checks_per_row",
    "routes/tensor_shapes_per_origin_rank",
    // placement
    "placement/state_note", "placement/expected/what_each_answers", "placement/predicate/name",
    "placement/predicate/conjunction", "placement/predicate/clauses/*/id",
    "placement/predicate/clauses/*/formula", "placement/predicate/clauses/*/rejects",
    "placement/predicate/extra", "placement/predicate/cases/*/note",
    "placement/cardinality/formula", "placement/transitions/*/guard", "placement/fence/steps/*/why",
    "placement/fence/combine_checks", "placement/intro_examples/hot_expert",
    "placement/intro_examples/five_slot_note", "placement/formulas", "placement/replica_meaning",
    // dispatch
    "dispatch/axis", "dispatch/sort_keys", "dispatch/receive_layout", "dispatch/inverse",
    "dispatch/combine_formula", "dispatch/oracle", "dispatch/padded_all_to_all/formula",
    "dispatch/designs", "dispatch/must_fail_when_changed",
    // bytes
    "bytes/unit", "bytes/ledgers/*/needs", "bytes/representation/gate_location",
    "bytes/staging/formula", "bytes/remote/logical_total_name", "bytes/remote/excludes",
    "bytes/interval", "bytes/alias/rule", "bytes/events/*/epoch_inferred",
    "bytes/completion_semantics", "bytes/release_rules/*/premature",
    "bytes/release_rules/*/consequence", "bytes/last_reader", "bytes/oracle_rejects",
    "bytes/padded/not_a_claim", "bytes/large_case/excludes", "bytes/formulas",
    // two-rank
    "two-rank/not_given", "two-rank/key_collisions/*/verdict",
    // topology
    "topology/topology_version_note", "topology/separate_versions", "topology/transport_classes",
    "topology/groups/*/purpose", "topology/record_fields", "topology/split_rule",
    "topology/hierarchical/stages", "topology/payload_excludes", "topology/logical_groups",
    "topology/plan_checks", "topology/cost_terms", "topology/comparison_must_hold_constant",
    "topology/pinned_evidence", "topology/frozen_counts/mutations"};

// Primary inputs that nothing else in a set restates, so that another value is another set.
constexpr std::array free_inputs{
    "placement/slots/*/parameter_digest",   // of an expert without a second replica
    "placement/fence/probes/*/after_step",  // where other steps give the same verdict
    "placement/intro_examples/five_slot_replica_of_E0/*/rank",
    "bytes/ledgers/*/name",
    "bytes/events/*/epoch",  // of events that no buffer waits for, between their neighbours
    "topology/topology_version"};

bool covers(std::string_view pattern, std::string_view pointer) {
  while (!pattern.empty()) {
    const std::string_view step = pattern.substr(0, pattern.find('/'));
    const std::string_view found = pointer.substr(0, pointer.find('/'));
    if (step != "*" && step != found) return false;
    if (step.size() == pattern.size()) return true;
    if (found.size() == pointer.size()) return false;
    pattern.remove_prefix(step.size() + 1);
    pointer.remove_prefix(found.size() + 1);
  }
  return true;
}

template <class Patterns>
bool listed(const Patterns& patterns, std::string_view pointer) {
  for (const std::string_view pattern : patterns) {
    const bool everywhere = pattern == "schema" || pattern == "provenance" || pattern[0] == '*';
    const std::string_view inside = pointer.substr(pointer.find('/') + 1);
    if (covers(pattern, everywhere ? inside : pointer)) return true;
  }
  return false;
}

void collect_leaves(const Json& json, const std::string& pointer, std::vector<std::string>& out) {
  if (!json.is_structured()) return out.push_back(pointer);
  for (const auto& [key, value] : json.items()) collect_leaves(value, pointer + "/" + key, out);
}

Json changed(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>() + 1;
  if (value.is_number()) return value.get<double>() + 1;
  if (value.is_string()) return value.get<std::string>() + "x";
  return "x";
}

// A name that could stand there: another one of the same array.
Json neighbour(const Json& document, const Json::json_pointer& pointer) {
  const Json& parent = document.at(pointer.parent_pointer());
  const Json& value = document.at(pointer);
  if (!parent.is_array() || !value.is_string()) return value;
  for (const Json& other : parent) {
    if (other != value) return other;
  }
  return value;
}

// Most values are checked where they stand; what another file restates is checked there.
bool caught(const FixtureSet& set, const std::string& file) {
  return !check_file(set, file).violations().empty() || !check_set(set).violations().empty();
}

class Leaves : public ::testing::TestWithParam<const char*> {};

TEST_P(Leaves, ChangingADerivedOneIsAViolation) {
  FixtureSet set = FixtureSet::read(std::string(WAYBILL_TEST_DATA) + "/" + GetParam());
  set.files().erase("failures.json");
  ASSERT_TRUE(check_set(set).violations().empty()) << check_set(set).text();
  std::size_t tried = 0;
  for (auto& [file, document] : set.files()) {
    const std::string kind = FixtureSet::kind(document);
    std::vector<std::string> pointers;
    collect_leaves(document, "", pointers);
    for (const std::string& pointer : pointers) {
      if (listed(prose, kind + pointer) || listed(free_inputs, kind + pointer)) continue;
      const Json::json_pointer place(pointer);
      const Json original = document.at(place);
      for (const Json& other : {changed(original), neighbour(document, place)}) {
        if (other == original) continue;
        document.at(place) = other;
        EXPECT_TRUE(caught(set, file))
            << file << "#" << pointer << ": " << original << " -> " << other;
        document.at(place) = original;
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 1500U);
}

INSTANTIATE_TEST_SUITE_P(Sets, Leaves, ::testing::Values("conformance", "conformance-six-ranks"));

// The lists above don't hide what is derived: no pattern stands for a whole file or its numbers.
TEST(LeafPatterns, CoverWhatTheyNameAndNothingBeside) {
  EXPECT_TRUE(covers("routes/experts/*/transform", "routes/experts/3/transform"));
  EXPECT_FALSE(covers("routes/experts/*/transform", "routes/experts/3/scale"));
  EXPECT_TRUE(covers("dispatch/designs", "dispatch/designs/0/name"));
  EXPECT_FALSE(covers("dispatch/designs", "dispatch/design"));
  EXPECT_TRUE(listed(prose, "dispatch/tie_case/note"));
  EXPECT_FALSE(listed(prose, "dispatch/tie_case/remote_rows"));
}

}  // namespace
}  // namespace waybill::conformance
