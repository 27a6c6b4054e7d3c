// waybill: the command.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.h"
#include "failure.h"
#include "nearest.h"
#include "text.h"
#include "waybill/error.h"

namespace waybill::cli {
namespace {

class Help : public CLI::Formatter {
 public:
  Help() {
    column_width(name_columns);
    label("REQUIRED", "");
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrap(option->get_description(), page_columns - name_columns);
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    const std::string text = wrap(sub->get_description(), page_columns - name_columns);
    return field("  " + sub->get_name(), text, name_columns);
  }
  std::string make_description(const CLI::App* app) const override {
    return wrap(app->get_description(), page_columns) + "\n\n";
  }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;)
      text.erase(at, 1);
    return text;
  }

 private:
  static constexpr std::size_t name_columns = 26;
};

// A word that no subcommand has; CLI11 would call it an argument that wasn't expected.
void refuse_unknown(const CLI::App& app, std::string_view word) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (sub->get_name() == word) return;
    if (!sub->get_group().empty()) names.push_back(sub->get_name());
  }
  throw Error(Code::UsageError)
      .at("command", word)
      .expected(fmt::format("one of {}", fmt::join(names, ", ")))
      .note(fmt::format("nearest: {}", nearest(word, names, 1).front()));
}

void parse(CLI::App& app, int argc, char** argv) {
  try {
    if (argc > 1 && argv[1][0] != '-') refuse_unknown(app, argv[1]);
    app.parse(argc, argv);
  } catch (const CLI::Success&) {
    throw;
  } catch (const CLI::ParseError& error) {
    std::string command = "waybill";
    for (const CLI::App* sub : app.get_subcommands()) command += " " + sub->get_name();
    throw Error(Code::UsageError).at("command", command).note(error.what());
  }
}

Exit execute(int argc, char** argv) {
  CLI::App app(
      "Runs the mixture-of-experts layers of a checkpoint over expert-parallel ranks, "
      "shows what that cost and that the result is right.");
  app.name("waybill");
  app.formatter(std::make_shared<Help>());
  app.set_version_flag("--version", "waybill " WAYBILL_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Example: waybill run CHECKPOINT_DIR --ranks 4 --check\n"
      "Help on one command: waybill run --help\n"
      "Exit status: 0 success, 1 a contract is violated, 2 wrong usage or input");
  Action action;
  add_run(app, action);
  add_plan(app, action);
  add_doctor(app, action);
  add_explain(app, action);
  add_make_checkpoint(app, action);
  add_later(app, action);
  try {
    parse(app, argc, argv);
  } catch (const CLI::Success& help) {
    return static_cast<Exit>(app.exit(help));
  }
  return action();
}

}  // namespace
}  // namespace waybill::cli

int main(int argc, char** argv) {
  using namespace waybill;
  const bool json = std::any_of(argv, argv + argc,
                                [](std::string_view argument) { return argument == "--json"; });
  try {
    return static_cast<int>(cli::execute(argc, argv));
  } catch (const Error& error) {
    return static_cast<int>(cli::report(error, json));
  } catch (const std::exception& error) {
    fmt::print(stderr, "waybill: {}\n", error.what());
    return static_cast<int>(cli::Exit::usage);
  }
}
