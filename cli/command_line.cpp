#include "command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>
#include <vector>

#include "nearest.h"
#include "text.h"
#include "waybill/error.h"

namespace waybill::cli {
namespace {

class Help : public CLI::Formatter {
 public:
  Help() { column_width(name_columns); }

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

template <class Value>
CLI::Option* add_number(CLI::App& app, const std::string& name, Value& value,
                        const std::string& text, const std::string& group) {
  return app.add_option(name, value, text)->type_name("N")->capture_default_str()->group(group);
}

}  // namespace

void Subcommand::positional(const std::string& name, std::string& value, const std::string& text) {
  app_->add_option(name, value, text)->type_name("");
}

void Subcommand::positionals(const std::string& name, std::vector<std::string>& values,
                             const std::string& text) {
  app_->add_option(name, values, text)->type_name("");
}

void Subcommand::word(const std::string& name, std::string& value, const std::string& type,
                      const std::string& text, const std::string& group) {
  CLI::Option* option = app_->add_option(name, value, text)->type_name(type)->group(group);
  if (!value.empty()) option->capture_default_str();
}

void Subcommand::number(const std::string& name, std::int32_t& value, const std::string& text,
                        const std::string& group) {
  add_number(*app_, name, value, text, group);
}

void Subcommand::number(const std::string& name, std::int64_t& value, const std::string& text,
                        const std::string& group) {
  add_number(*app_, name, value, text, group);
}

void Subcommand::number(const std::string& name, std::uint64_t& value, const std::string& text,
                        const std::string& group) {
  add_number(*app_, name, value, text, group);
}

void Subcommand::flag(const std::string& name, bool& value, const std::string& text,
                      const std::string& group) {
  app_->add_flag(name, value, text)->group(group);
}

void Subcommand::negation(const std::string& name, bool& value, const std::string& text,
                          const std::string& group) {
  app_->add_flag_callback(
          name, [&value] { value = false; }, text)
      ->group(group);
}

void Subcommand::require(const std::string& name) { app_->get_option(name)->required(); }

void Subcommand::example(const std::string& text) { app_->footer("Example: " + text); }

CommandLine::CommandLine()
    : app_(std::make_unique<CLI::App>(
          "Runs the mixture-of-experts layers of a checkpoint over expert-parallel ranks, shows "
          "what that cost and that the result is right.")) {
  app_->name("waybill");
  app_->formatter(std::make_shared<Help>());
  app_->set_version_flag("--version", "waybill " WAYBILL_VERSION);
  app_->require_subcommand(1);
  app_->footer(
      "Example: waybill run CHECKPOINT_DIR --ranks 4 --check\n"
      "Help on one command: waybill run --help\n"
      "Exit status: 0 success, 1 a contract is violated, 2 wrong usage or input");
}

CommandLine::~CommandLine() = default;

Subcommand CommandLine::add(const std::string& name, const std::string& summary, Action action) {
  CLI::App* app = app_->add_subcommand(name, summary);
  app->callback([this, action = std::move(action)] { chosen_ = action; });
  return Subcommand(*app);
}

void CommandLine::add_hidden(const std::string& name, Action action) {
  add(name, "", std::move(action));
  CLI::App* app = app_->get_subcommand(name);
  app->group("");
  app->prefix_command();
  app->set_help_flag("");
}

// A word that no subcommand has; CLI11 would call it an argument that wasn't expected.
void CommandLine::refuse_unknown(std::string_view word) const {
  std::vector<std::string> names;
  for (const CLI::App* sub : app_->get_subcommands({})) {
    if (sub->get_name() == word) return;
    if (!sub->get_group().empty()) names.push_back(sub->get_name());
  }
  throw Error(Code::UsageError)
      .at("command", word)
      .expected(fmt::format("one of {}", fmt::join(names, ", ")))
      .note(fmt::format("nearest: {}", nearest(word, names, 1).front()));
}

void CommandLine::parse(int argc, const char* const* argv) {
  try {
    if (argc > 1 && argv[1][0] != '-') refuse_unknown(argv[1]);
    app_->parse(argc, argv);
  } catch (const CLI::Success&) {
    throw;
  } catch (const CLI::ParseError& error) {
    std::string command = "waybill";
    for (const CLI::App* sub : app_->get_subcommands()) command += " " + sub->get_name();
    throw Error(Code::UsageError).at("command", command).note(error.what());
  }
}

Exit CommandLine::execute(int argc, const char* const* argv) {
  try {
    parse(argc, argv);
  } catch (const CLI::Success& help) {
    return static_cast<Exit>(app_->exit(help));
  }
  return chosen_();
}

}  // namespace waybill::cli
