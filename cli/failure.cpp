#include "failure.h"

#include <fmt/format.h>

#include <cstdio>

#include "text.h"

namespace waybill::cli {

Exit exit_of(const Error& error) {
  const std::string_view group = category(error.code());
  const auto names = [&](std::string_view coordinate) {
    return !error.coordinate(coordinate).empty();
  };
  if (names("loads")) return Exit::violation;
  const bool callers =
      group == "input" || group == "usage" || names("file") || names("command") || names("option");
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
  std::string text = fmt::format("waybill: {}\n", error.what());
  text += indent(wrap(contract(error.code()), page_columns - 2), 2) + '\n';
  const std::string_view command = error.coordinate("command");
  if (error.code() == Code::UsageError && command.starts_with("waybill ")) {
    text += fmt::format("  More: {} --help\n", command);
  } else {
    text += fmt::format("  More: waybill explain {}\n", code);
  }
  std::fputs(text.c_str(), stderr);
  if (json) {
    nlohmann::ordered_json fields = to_json(error);
    fields["category"] = category(error.code());
    fields["message"] = error.what();
    write_json({{"error", fields}});
  }
  return exit_of(error);
}

Exit report(const std::exception& failure, bool json) {
  std::fputs(fmt::format("waybill: {}\n", failure.what()).c_str(), stderr);
  if (json) write_json({{"error", {{"code", nullptr}, {"message", failure.what()}}}});
  return Exit::usage;
}

Exit finish_output(Exit status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  throw Error(Code::FileUnwritable).at("file", "stdout").expected("the whole report");
}

}  // namespace waybill::cli
