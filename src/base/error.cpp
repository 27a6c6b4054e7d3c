#include "waybill/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace waybill {
namespace {

struct Row {
  std::string_view name, category, contract;
};

constexpr auto kTable = std::to_array<Row>({
#define WAYBILL_CODE(name, category, contract) {#name, #category, contract},
#include "waybill/error_codes.def"
#undef WAYBILL_CODE
});

const Row& row(Code code) { return kTable[static_cast<std::size_t>(code)]; }

}  // namespace

std::string_view name(Code code) { return row(code).name; }
std::string_view category(Code code) { return row(code).category; }
std::string_view contract(Code code) { return row(code).contract; }

std::vector<Code> all_codes() {
  std::vector<Code> codes;
  codes.reserve(kTable.size());
  for (std::size_t i = 0; i < kTable.size(); ++i) codes.push_back(static_cast<Code>(i));
  return codes;
}

bool find_code(std::string_view name, Code& code) {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (kTable[i].name == name) {
      code = static_cast<Code>(i);
      return true;
    }
  }
  return false;
}

Error::Error(Code code) : code_(code) { rebuild(); }

Error& Error::note(std::string_view text) & {
  note_ = text;
  rebuild();
  return *this;
}

std::string_view Error::coordinate(std::string_view name) const noexcept {
  for (const auto& [key, value] : where_) {
    if (key == name) return value;
  }
  return {};
}

std::string Error::number(double value) { return fmt::format("{}", value); }

void Error::add(std::string_view coordinate, std::string value) {
  where_.emplace_back(coordinate, std::move(value));
  rebuild();
}

void Error::rebuild() {
  what_ = name(code_);
  const char* separator = ": ";
  for (const auto& [key, value] : where_) {
    what_ += fmt::format("{}{} {}", separator, key, value);
    separator = ", ";
  }
  separator = ": ";
  if (!expected_.empty()) {
    what_ += fmt::format("{}expected {}", separator, expected_);
    separator = ", ";
  }
  if (!found_.empty()) what_ += fmt::format("{}found {}", separator, found_);
  if (!note_.empty()) what_ += fmt::format(" ({})", note_);
  // Names come from files: what they hold must not steer a terminal.
  std::replace_if(
      what_.begin(), what_.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }, '?');
}

}  // namespace waybill
