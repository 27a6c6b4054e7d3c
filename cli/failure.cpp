#include "failure.h"

#include <fmt/format.h>

#include <cstdio>

#include "text.h"

namespace waybill::cli {

Exit exit_of(const Error& error) {
  const std::string_view group = category(error.code());
  const bool callers = group == "input" || group == "usage" || !error.coordinate("file").empty();
  return callers ? Exit::usage : Exit::violation;
}

nlohmann::ordered_json to_json(const Error& error) {
  nlohmann::ordered_json where = nlohmann::ordered_json::object();
  for (const auto& [coordinate, value] : error.where()) where[coordinate] = value;
  return {{"code", name(error.code())},
          {"where", where},
          {"expected", error.expected_text()},
          {"found", error.found_text()}};
}

Exit report(const Error& error, bool json) {
  const std::string_view code = name(error.code());
  fmt::print(stderr, "waybill: {}\n", error.what());
  fmt::print(stderr, "{}\n", indent(wrap(contract(error.code()), page_columns - 2), 2));
  const std::string_view command = error.coordinate("command");
  if (error.code() == Code::UsageError && command.starts_with("waybill ")) {
    fmt::print(stderr, "  More: {} --help\n", command);
  } else {
    fmt::print(stderr, "  More: waybill explain {}\n", code);
  }
  if (json) {
    nlohmann::ordered_json fields = to_json(error);
    fields["category"] = category(error.code());
    fields["message"] = error.what();
    write_json({{"error", fields}});
  }
  return exit_of(error);
}

}  // namespace waybill::cli
