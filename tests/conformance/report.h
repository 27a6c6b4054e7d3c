// What a check of a conformance set found: violations under the codes of the reference text, and
// what it didn't check.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/value.h"

namespace waybill::conformance {

struct Violation {
  Code code;
  std::string file, pointer;
  std::string expected, found;
};

class Report {
 public:
  // A set that is wrong everywhere is listed in part.
  static constexpr std::size_t most = 1000;

  void violation(Code code, const Value& at, const Json& expected, const Json& found);
  void violation(const Error& error, const Value& at);
  void unchecked(std::string what);

  // Compares a stated value with what the library derived, number by number and name by name: each
  // difference is a violation of every contract in `codes`, since some values are bound by several.
  // Members called "note" are prose.
  void expect(const Value& stated, const Json& derived, std::initializer_list<Code> codes);
  // The same for the member `key` of an object; absent counts as different.
  void expect(const Value& object, std::string_view key, const Json& derived,
              std::initializer_list<Code> codes);
  // A condition whose failure is a violation.
  void expect_that(bool condition, Code code, const Value& at, const Json& expected);
  // Runs `body`. An Error that leaves it is a violation: at the place that the error names when it
  // is a fault of a file, else at `at`. True when it returned.
  bool guard(const Value& at, const std::function<void()>& body);

  const std::vector<Violation>& violations() const { return violations_; }
  const std::vector<std::string>& unchecked() const { return unchecked_; }
  bool has(Code code) const;

  std::string text() const;
  Json json() const;

 private:
  std::vector<Violation> violations_;
  std::vector<std::string> unchecked_;
};

}  // namespace waybill::conformance
