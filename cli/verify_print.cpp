// The report of `verify`: for a terminal, and as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "failure.h"
#include "io/faults.h"
#include "text.h"
#include "verify_result.h"

namespace waybill::cli {
namespace {

// A block names its file once.
std::string without_file(const Error& violation) {
  Error told(violation.code());
  for (const auto& [coordinate, value] : violation.where()) {
    if (coordinate != "file") told.at(coordinate, value);
  }
  return told.expected(violation.expected_text()).found(violation.found_text()).what();
}

std::string verdict(const VerifiedFile& file) {
  if (file.violations.empty()) return "right";
  const std::size_t faults = file.violations.size();
  std::string text =
      fmt::format("{}: {} fault{}{}", file.kind ? "WRONG" : "UNKNOWN", faults,
                  faults == 1 ? "" : "s", faults == Faults::most ? ", and maybe more" : "");
  for (const Error& violation : file.violations) text += '\n' + without_file(violation);
  return text;
}

std::string block(const VerifiedFile& file) {
  std::string text = field("file", printable(file.path));
  if (file.kind) text += field("kind", name(*file.kind));
  if (!file.holds.empty()) text += field("holds", printable(file.holds));
  for (const std::string& section : file.unchecked) text += field("unchecked", printable(section));
  return text + field("verdict", verdict(file));
}

}  // namespace

void print_text(std::span<const VerifiedFile> files) {
  std::string text;
  for (const VerifiedFile& file : files) {
    if (!text.empty()) text += '\n';
    text += block(file);
  }
  write_text(text);
}

void print_json(std::span<const VerifiedFile> files) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array(), violations = Json::array(), unchecked = Json::array();
  for (const VerifiedFile& file : files) {
    list.push_back({{"file", file.path},
                    {"kind", file.kind ? Json(name(*file.kind)) : Json(nullptr)},
                    {"holds", file.holds},
                    {"violations", file.violations.size()}});
    for (const Error& violation : file.violations) violations.push_back(to_json(violation));
    for (const std::string& section : file.unchecked) {
      unchecked.push_back(fmt::format("{}: {}", file.path, section));
    }
  }
  write_json({{"files", list}, {"violations", violations}, {"unchecked", unchecked}});
}

}  // namespace waybill::cli
