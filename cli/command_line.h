// The grammar of the command line: subcommands, their options, help. CLI11 stays behind it, which
// keeps that large header out of every subcommand.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace waybill::cli {

using Action = std::function<Exit()>;

// What a number on the command line may be, both ends included.
struct Range {
  std::uint64_t low, high;
};
struct RealRange {
  double low, high;
};
inline constexpr Range token_range{0, 1 << 24};
inline constexpr Range seed_range{0, std::numeric_limits<std::uint64_t>::max()};

// Every `value` is written while the line is parsed and must live until its action has run. A value
// that isn't empty is shown as the default. `group` is a heading of the help.
class Subcommand {
 public:
  explicit Subcommand(CLI::App& app) : app_(&app) {}

  void positional(const std::string& name, std::string& value, const std::string& text);
  // All that are left, in their order.
  void positionals(const std::string& name, std::vector<std::string>& values,
                   const std::string& text);
  void word(const std::string& name, std::string& value, const std::string& type,
            const std::string& text, const std::string& group = "Options");
  // Decimal digits. UsageError for anything else, InvalidValue outside `range`. A default outside
  // `range` stands for "not given" and isn't shown.
  void number(const std::string& name, std::int32_t& value, Range range, const std::string& text,
              const std::string& group = "Options");
  void number(const std::string& name, std::int64_t& value, Range range, const std::string& text,
              const std::string& group = "Options");
  void number(const std::string& name, std::uint64_t& value, Range range, const std::string& text,
              const std::string& group = "Options");
  // Likewise, but `word` is a value too and reads as `meaning`.
  void number_or(const std::string& name, std::int32_t& value, Range range, const std::string& word,
                 std::int32_t meaning, const std::string& text,
                 const std::string& group = "Options");
  // Decimal digits, with a point or without. The same errors.
  void real(const std::string& name, double& value, RealRange range, const std::string& text,
            const std::string& group = "Options");
  void flag(const std::string& name, bool& value, const std::string& text,
            const std::string& group = "Options");
  // Sets `value`, which the flag `of` sets to true, back to false. Both together are refused.
  void negation(const std::string& name, const std::string& of, bool& value,
                const std::string& text, const std::string& group = "Options");
  void require(const std::string& name);
  // UsageError when the first is given without the second, or with it.
  void need(const std::string& name, const std::string& other);
  void exclude(const std::string& name, const std::string& other);
  // What stands at the end of the help.
  void example(const std::string& text);

 private:
  CLI::App* app_;
};

class CommandLine {
 public:
  CommandLine();
  ~CommandLine();

  Subcommand add(const std::string& name, const std::string& summary, Action action);
  // Known but not shown in the help; takes any arguments, --help among them.
  void add_hidden(const std::string& name, Action action);

  // Runs what the line asks for; prints help when that is what it asks for. UsageError.
  Exit execute(int argc, const char* const* argv);

 private:
  void refuse_unknown(std::string_view word) const;
  void parse(int argc, const char* const* argv);

  std::unique_ptr<CLI::App> app_;
  Action chosen_;
};

}  // namespace waybill::cli
