#include "text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace waybill::cli {
namespace {

std::string wrap_line(std::string_view line, std::size_t columns) {
  std::string wrapped;
  std::size_t used = 0;
  while (!line.empty()) {
    const std::size_t length = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, length);
    line.remove_prefix(std::min(length + 1, line.size()));
    if (used > 0 && used + 1 + word.size() > columns) {
      wrapped += '\n';
      used = 0;
    } else if (used > 0) {
      wrapped += ' ';
      ++used;
    }
    wrapped += word;
    used += word.size();
  }
  return wrapped;
}

}  // namespace

std::string wrap(std::string_view text, std::size_t columns) {
  std::string wrapped;
  while (true) {
    const std::size_t end = text.find('\n');
    wrapped += wrap_line(text.substr(0, end), columns);
    if (end == std::string_view::npos) return wrapped;
    wrapped += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string indent(std::string_view text, std::size_t spaces) {
  const std::string blanks(spaces, ' ');
  std::string indented = blanks;
  for (char c : text) {
    indented += c;
    if (c == '\n') indented += blanks;
  }
  return indented;
}

std::string field(std::string_view label, std::string_view value, std::size_t label_columns) {
  const std::string block = indent(wrap(value, page_columns - label_columns), label_columns);
  return fmt::format("{:<{}}{}\n", label, label_columns, block.substr(label_columns));
}

std::string printable(std::string_view name) {
  std::string text(name);
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 0x7F; }, '?');
  return text;
}

std::string bytes_text(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr auto units = std::to_array({"KiB", "MiB", "GiB", "TiB", "PiB"});
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string time_text(std::int64_t nanoseconds) {
  const auto ns = static_cast<double>(nanoseconds);
  if (nanoseconds < 1'000) return fmt::format("{} ns", nanoseconds);
  if (nanoseconds < 1'000'000) return fmt::format("{:.1f} us", ns / 1e3);
  if (nanoseconds < 1'000'000'000) return fmt::format("{:.2f} ms", ns / 1e6);
  return fmt::format("{:.2f} s", ns / 1e9);
}

std::string counts_text(std::span<const std::int64_t> counts) {
  const bool equal = std::ranges::all_of(counts, [&](std::int64_t n) { return n == counts[0]; });
  if (counts.size() > 8 && equal) return fmt::format("{} x {}", counts.size(), counts[0]);
  return fmt::format("{}", fmt::join(counts, " "));
}

void write_text(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void write_json(const nlohmann::ordered_json& document) {
  write_text(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
}

}  // namespace waybill::cli
