// waybill-conformance DIR [--json]: checks conformance files against the library.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "conformance/check.h"

namespace {

constexpr int success = 0, violated = 1, unusable = 2;

int usage(std::FILE* to) {
  fmt::print(to,
             "usage: waybill-conformance DIR [--json]\n"
             "Feeds the primary inputs of the conformance files in DIR to the library and compares "
             "every derived value.\n"
             "Exit: 0 no violation, 1 violations, 2 wrong usage or unreadable files.\n"
             "Example: waybill-conformance tests/data/conformance --json\n");
  return to == stdout ? success : unusable;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace waybill::conformance;
  std::string folder;
  bool json = false;
  for (const std::string& argument : std::vector<std::string>(argv + 1, argv + argc)) {
    if (argument == "--help" || argument == "-h") return usage(stdout);
    if (argument == "--json") {
      json = true;
    } else if (folder.empty() && !argument.starts_with("-")) {
      folder = argument;
    } else {
      return usage(stderr);
    }
  }
  if (folder.empty()) return usage(stderr);
  try {
    const Report report = check_set(FixtureSet::read(folder));
    fmt::print("{}", json ? report.json().dump(1) + "\n" : report.text());
    return report.violations().empty() ? success : violated;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return unusable;
  }
}
