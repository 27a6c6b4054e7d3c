#include "conformance/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace waybill::conformance {

void Report::violation(Code code, const Value& at, const Json& expected, const Json& found) {
  if (violations_.size() == most) return;
  violations_.push_back({code, at.file(), at.pointer(), shown(expected), shown(found)});
}

void Report::violation(const Error& error, const Value& at) {
  if (violations_.size() == most) return;
  const bool in_file = !error.coordinate("file").empty();
  std::string found = error.found_text();
  for (const auto& [coordinate, value] : error.where()) {
    if (coordinate == "file" || coordinate == "at") continue;
    found += fmt::format("{}{} {}", found.empty() ? "" : ", ", coordinate, value);
  }
  violations_.push_back({error.code(), in_file ? std::string(error.coordinate("file")) : at.file(),
                         in_file ? std::string(error.coordinate("at")) : at.pointer(),
                         error.expected_text(), found});
}

void Report::unchecked(std::string what) { unchecked_.push_back(std::move(what)); }

void Report::expect(const Value& stated, const Json& derived, std::initializer_list<Code> codes) {
  const Json& found = stated.json();
  if (found == derived) return;
  if (found.is_array() && derived.is_array() && found.size() == derived.size()) {
    const auto elements = stated.elements();
    for (std::size_t i = 0; i < elements.size(); ++i) expect(elements[i], derived[i], codes);
  } else if (found.is_object() && derived.is_object()) {
    for (const auto& [key, value] : derived.items()) expect(stated, key, value, codes);
    for (const auto& [key, member] : stated.members()) {
      if (key == "note" || derived.contains(key)) continue;
      for (const Code code : codes) violation(code, member, "nothing here", member.json());
    }
  } else {
    for (const Code code : codes) violation(code, stated, derived, found);
  }
}

void Report::expect(const Value& object, std::string_view key, const Json& derived,
                    std::initializer_list<Code> codes) {
  if (const auto stated = object.find(key)) return expect(*stated, derived, codes);
  for (const Code code : codes) {
    violation(code, object, fmt::format("member {}: {}", key, shown(derived)), "no such member");
  }
}

void Report::expect_that(bool condition, Code code, const Value& at, const Json& expected) {
  if (!condition) violation(code, at, expected, at.json());
}

bool Report::guard(const Value& at, const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    violation(error, at);
    return false;
  }
}

bool Report::has(Code code) const {
  return std::any_of(violations_.begin(), violations_.end(),
                     [&](const Violation& violation) { return violation.code == code; });
}

std::string Report::text() const {
  std::string text;
  for (const Violation& v : violations_) {
    text += fmt::format("{}  {}#{}: expected {}, found {}\n", name(v.code), v.file, v.pointer,
                        v.expected, v.found);
  }
  for (const std::string& what : unchecked_) text += fmt::format("unchecked  {}\n", what);
  text += fmt::format("{} violations, {} unchecked\n", violations_.size(), unchecked_.size());
  return text;
}

Json Report::json() const {
  Json violations = Json::array();
  for (const Violation& v : violations_) {
    violations.push_back({{"code", name(v.code)},
                          {"where", v.file + "#" + v.pointer},
                          {"file", v.file},
                          {"pointer", v.pointer},
                          {"expected", v.expected},
                          {"found", v.found}});
  }
  return {{"violations", std::move(violations)}, {"unchecked", unchecked_}};
}

}  // namespace waybill::conformance
