// waybill explain [CODE]
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"
#include "command_line.h"
#include "nearest.h"
#include "text.h"
#include "waybill/error.h"

namespace waybill::cli {
namespace {

struct ExplainOptions {
  std::string code;
  bool json = false;
};

nlohmann::ordered_json code_json(Code code) {
  return {{"code", name(code)}, {"category", category(code)}, {"contract", contract(code)}};
}

void print_all() {
  std::string text;
  std::string_view group;
  for (Code code : all_codes()) {
    if (category(code) != group) {
      text += fmt::format("{}{}\n", group.empty() ? "" : "\n", category(code));
      group = category(code);
    }
    text += fmt::format("  {}\n", name(code));
  }
  write_text(text);
}

Exit explain(const ExplainOptions& options) {
  if (options.code.empty()) {
    if (!options.json) {
      print_all();
      return Exit::success;
    }
    nlohmann::ordered_json codes = nlohmann::ordered_json::array();
    for (Code code : all_codes()) codes.push_back(code_json(code));
    write_json({{"codes", codes}});
    return Exit::success;
  }
  Code code{};
  if (!find_code(options.code, code)) {
    std::vector<std::string> names;
    for (Code known : all_codes()) names.emplace_back(name(known));
    throw Error(Code::UsageError)
        .at("code", options.code)
        .expected("a code that waybill explain lists")
        .note(fmt::format("nearest: {}", fmt::join(nearest(options.code, names, 3), ", ")));
  }
  if (options.json) {
    write_json(code_json(code));
  } else {
    write_text(field("code", name(code)) + field("category", category(code)) +
               field("contract", contract(code)));
  }
  return Exit::success;
}

}  // namespace

void add_explain(CommandLine& line) {
  auto options = std::make_shared<ExplainOptions>();
  Subcommand command =
      line.add("explain", "The contract behind an error code; without one, all codes.",
               [options] { return explain(*options); });
  command.positional("CODE", options->code, "Name of the code, as errors print it");
  command.flag("--json", options->json, "Machine-readable output");
  command.example(
      "waybill explain SendOrderMismatch\n(0x...) names a section of the reference text.");
}

}  // namespace waybill::cli
