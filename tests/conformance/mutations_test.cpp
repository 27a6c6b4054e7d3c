// One field changed: the program names the contract that broke.
#include <gtest/gtest.h>

#include "conformance/check.h"

namespace waybill::conformance {
namespace {

std::string folder() { return std::string(WAYBILL_TEST_DATA) + "/conformance"; }

struct Mutation {
  std::string file, pointer;
  Json to;
  Code code;
};

Code code_named(const std::string& name) {
  Code code{};
  EXPECT_TRUE(find_code(name, code)) << name;
  return code;
}

Report after(const FixtureSet& set, const Mutation& mutation) {
  FixtureSet changed = set;
  Json& value = changed.files().at(mutation.file).at(Json::json_pointer(mutation.pointer));
  EXPECT_NE(value, mutation.to) << mutation.pointer;
  value = mutation.to;
  return check_set(changed);
}

void expect_caught(const FixtureSet& set, const Mutation& mutation) {
  const Report report = after(set, mutation);
  EXPECT_TRUE(report.has(mutation.code))
      << mutation.file << "#" << mutation.pointer << " -> " << mutation.to << ": expected "
      << name(mutation.code) << "\n"
      << report.text();
}

TEST(Conformance, TheUnchangedSetIsClean) {
  const Report report = check_set(FixtureSet::read(folder()));
  EXPECT_TRUE(report.violations().empty()) << report.text();
}

// The mutations that come with the set, of the loops whose files are checked.
TEST(Conformance, EveryMutationOfTheSetIsCaught) {
  const FixtureSet set = FixtureSet::read(folder());
  std::size_t tried = 0;
  for (const Json& mutation : set.files().at("failures.json").at("mutations")) {
    const int loop = mutation.at("loop");
    if (loop > 4 && loop != 8) continue;
    const std::string place = mutation.at("json_pointer");
    const std::size_t hash = place.find('#');
    expect_caught(set, {place.substr(0, hash), place.substr(hash + 1), mutation.at("to"),
                        code_named(mutation.at("expected_error"))});
    ++tried;
  }
  EXPECT_GE(tried, 60U);
}

}  // namespace
}  // namespace waybill::conformance
