#include "command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
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

  // Not what an option needs or excludes: errors tell that.
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text;
    if (!option->get_type_name().empty()) text += ' ' + option->get_type_name();
    if (!option->get_default_str().empty()) text += '=' + option->get_default_str();
    if (option->get_required()) text += " REQUIRED";
    return text;
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

Error fault_of(Code code, const CLI::App& command, std::string_view option) {
  return Error(code).at("command", "waybill " + command.get_name()).at("option", option);
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::uint64_t parse_number(const CLI::App& command, std::string_view option, std::string_view word,
                           Range range, std::string_view or_else = {}) {
  const std::string expected =
      fmt::format("a number from {} to {}{}", range.low, range.high, or_else);
  const bool negative = word.starts_with('-');
  const std::string_view digits = word.substr(negative ? 1 : 0);
  if (!is_digits(digits)) {
    throw fault_of(Code::UsageError, command, option).expected(expected).found(word);
  }
  std::uint64_t value = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (negative || fault != std::errc{} || value < range.low || value > range.high) {
    throw fault_of(Code::InvalidValue, command, option).expected(expected).found(word);
  }
  return value;
}

double parse_real(const CLI::App& command, std::string_view option, std::string_view word,
                  RealRange range) {
  const std::string expected = fmt::format("a number from {} to {}", range.low, range.high);
  const bool negative = word.starts_with('-');
  const std::string_view digits = word.substr(negative ? 1 : 0);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const bool fraction = point == digits.size() || is_digits(digits.substr(point + 1));
  if (!is_digits(digits.substr(0, point)) || !fraction) {
    throw fault_of(Code::UsageError, command, option).expected(expected).found(word);
  }
  double value = 0;
  const auto [end, fault] =
      std::from_chars(word.data(), word.data() + word.size(), value, std::chars_format::fixed);
  if (fault != std::errc{} || value < range.low || value > range.high || negative) {
    throw fault_of(Code::InvalidValue, command, option).expected(expected).found(word);
  }
  return value;
}

template <class Value>
void add_number(CLI::App& command, const std::string& name, Value& value, Range range,
                const std::string& text, const std::string& group) {
  const auto parse = [&command, &value, name, range](const CLI::results_t& words) {
    value = static_cast<Value>(parse_number(command, name, words.back(), range));
    return true;
  };
  CLI::Option* option = command.add_option(name, parse, text)->type_name("N")->group(group);
  if (std::in_range<std::uint64_t>(value) && std::cmp_greater_equal(value, range.low)) {
    option->default_str(std::to_string(value));
  }
}

const CLI::Option* find_option(const CLI::App& command, std::string_view word) {
  if (!word.starts_with("--")) return nullptr;
  return command.get_option_no_throw(std::string(word.substr(0, word.find('='))));
}

// An empty value reads as an option that wasn't given, a forgotten value swallows the next option,
// and CLI11 takes true and false for flags: none of them says what was meant.
void refuse_unclear_values(const CLI::App& command, std::span<const char* const> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const CLI::Option* option = find_option(command, word);
    if (option == nullptr) {
      if (!word.empty()) continue;
      throw Error(Code::UsageError)
          .at("command", "waybill " + command.get_name())
          .expected("arguments that aren't empty");
    }
    const std::size_t equals = word.find('=');
    const bool joined = equals != std::string_view::npos;
    const auto refuse = [&](std::string_view expected, std::string_view found) {
      throw fault_of(Code::UsageError, command, word.substr(0, equals))
          .expected(expected)
          .found(found);
    };
    if (option->get_items_expected_max() == 0) {
      if (joined) refuse("no value", word.substr(equals + 1));
      continue;
    }
    if (!joined && ++i == words.size()) return;  // CLI11 tells which value is missing
    const std::string_view value = joined ? word.substr(equals + 1) : words[i];
    if (value.empty()) refuse("a value", "an empty one");
    if (!joined && find_option(command, value) != nullptr) refuse("a value", value);
  }
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

void Subcommand::number(const std::string& name, std::int32_t& value, Range range,
                        const std::string& text, const std::string& group) {
  add_number(*app_, name, value, range, text, group);
}

void Subcommand::number(const std::string& name, std::int64_t& value, Range range,
                        const std::string& text, const std::string& group) {
  add_number(*app_, name, value, range, text, group);
}

void Subcommand::number(const std::string& name, std::uint64_t& value, Range range,
                        const std::string& text, const std::string& group) {
  add_number(*app_, name, value, range, text, group);
}

void Subcommand::number_or(const std::string& name, std::int32_t& value, Range range,
                           const std::string& word, std::int32_t meaning, const std::string& text,
                           const std::string& group) {
  const CLI::App& command = *app_;
  const auto parse = [&command, &value, name, range, word, meaning](const CLI::results_t& words) {
    value = words.back() == word ? meaning
                                 : static_cast<std::int32_t>(parse_number(
                                       command, name, words.back(), range, " or " + word));
    return true;
  };
  app_->add_option(name, parse, text)->type_name("N|" + word)->group(group);
}

void Subcommand::real(const std::string& name, double& value, RealRange range,
                      const std::string& text, const std::string& group) {
  const CLI::App& command = *app_;
  const auto parse = [&command, &value, name, range](const CLI::results_t& words) {
    value = parse_real(command, name, words.back(), range);
    return true;
  };
  CLI::Option* option = app_->add_option(name, parse, text)->type_name("N")->group(group);
  if (value >= range.low) option->default_str(fmt::format("{}", value));
}

void Subcommand::flag(const std::string& name, bool& value, const std::string& text,
                      const std::string& group) {
  app_->add_flag(name, value, text)->group(group);
}

void Subcommand::negation(const std::string& name, const std::string& of, bool& value,
                          const std::string& text, const std::string& group) {
  app_->add_flag_callback(
          name, [&value] { value = false; }, text)
      ->group(group);
  exclude(name, of);
}

void Subcommand::require(const std::string& name) { app_->get_option(name)->required(); }

void Subcommand::need(const std::string& name, const std::string& other) {
  app_->get_option(name)->needs(app_->get_option(other));
}

void Subcommand::exclude(const std::string& name, const std::string& other) {
  app_->get_option(name)->excludes(app_->get_option(other));
}

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
    const std::span words(argv + 1, argv + std::max(argc, 1));
    if (!words.empty() && words[0][0] != '-') {
      refuse_unknown(words[0]);
      refuse_unclear_values(*app_->get_subcommand(words[0]), words.subspan(1));
    } else {
      refuse_unclear_values(*app_, words);
    }
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
