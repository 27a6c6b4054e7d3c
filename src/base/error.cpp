#include "waybill/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace waybill {
namespace {

struct Row {
  Code code;
  std::string_view name, category, contract;
};

constexpr auto kTable = std::to_array<Row>({
#define WAYBILL_CODE(number, name, category, contract) {Code::name, #name, #category, contract},
#include "waybill/error_codes.def"
#undef WAYBILL_CODE
});

constexpr std::size_t kNumbers =
    1 + static_cast<std::size_t>(std::ranges::max(kTable, {}, &Row::code).code);
constexpr std::size_t kNone = kTable.size();

// The table's row of each number.
constexpr auto kRows = [] {
  std::array<std::size_t, kNumbers> rows{};
  rows.fill(kNone);
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    rows[static_cast<std::size_t>(kTable[i].code)] = i;
  }
  return rows;
}();

constexpr bool each_row_has_its_own_number() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (kRows[static_cast<std::size_t>(kTable[i].code)] != i) return false;
  }
  return kRows[0] == kNone;
}
static_assert(each_row_has_its_own_number());

const Row& row(Code code) { return kTable[kRows[static_cast<std::size_t>(code)]]; }

}  // namespace

std::string_view name(Code code) { return row(code).name; }
std::string_view category(Code code) { return row(code).category; }
std::string_view contract(Code code) { return row(code).contract; }

std::vector<Code> all_codes() {
  std::vector<Code> codes;
  codes.reserve(kTable.size());
  for (const Row& row : kTable) codes.push_back(row.code);
  return codes;
}

bool find_code(std::string_view name, Code& code) {
  const auto* const found = std::ranges::find(kTable, name, &Row::name);
  if (found == kTable.end()) return false;
  code = found->code;
  return true;
}

bool find_code(std::int64_t number, Code& code) {
  if (number < 0 || std::cmp_greater_equal(number, kNumbers)) return false;
  if (kRows[static_cast<std::size_t>(number)] == kNone) return false;
  code = static_cast<Code>(number);
  return true;
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
