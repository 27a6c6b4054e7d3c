#include "placement/formats/number_table.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string_view>

namespace waybill {
namespace {

constexpr std::size_t most_axes = 3, longest_axis = std::size_t{1} << 20U;

double number_or_name(JsonValue value) {
  if (!value.is(JsonKind::string)) return value.as_number();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::string_view text = value.as_string();
  for (std::string_view name : std::to_array<std::string_view>({"NaN", "nan"})) {
    if (text == name) return std::numeric_limits<double>::quiet_NaN();
  }
  for (std::string_view name : std::to_array<std::string_view>({"Infinity", "inf", "Inf"})) {
    if (text == name) return infinity;
  }
  for (std::string_view name : std::to_array<std::string_view>({"-Infinity", "-inf", "-Inf"})) {
    if (text == name) return -infinity;
  }
  return value.as_number();  // says what it found
}

// The extents along the first entries, which all others then have to match.
std::vector<std::int64_t> shape_of(JsonValue array) {
  std::vector<std::int64_t> shape;
  while (array.is(JsonKind::array)) {
    const std::size_t size = array.size();
    if (size == 0 || size > longest_axis || shape.size() == most_axes) {
      throw array.error(Code::ShapeMismatch)
          .expected(fmt::format("1 to {} entries on at most {} axes", longest_axis, most_axes))
          .found(fmt::format("{} entries on axis {}", size, shape.size()));
    }
    shape.push_back(static_cast<std::int64_t>(size));
    array = *array.elements().begin();
  }
  return shape;
}

void append_numbers(JsonValue array, std::size_t axis, NumberTable& table) {
  if (!array.is(JsonKind::array)) {
    throw array.error(Code::DocumentMalformed).expected("an array").found(array.text());
  }
  if (static_cast<std::int64_t>(array.size()) != table.shape[axis]) {
    throw array.error(Code::ShapeMismatch)
        .expected(fmt::format("{} entries, as in the first", table.shape[axis]))
        .found(array.size());
  }
  const bool innermost = axis + 1 == table.axes();
  for (JsonValue value : array.elements()) {
    if (innermost) {
      table.values.push_back(number_or_name(value));
    } else {
      append_numbers(value, axis + 1, table);
    }
  }
}

}  // namespace

NumberTable read_numbers(JsonValue array) {
  NumberTable table{shape_of(array), {}};
  if (table.shape.empty()) {
    throw array.error(Code::DocumentMalformed).expected("an array of numbers").found(array.text());
  }
  append_numbers(array, 0, table);
  return table;
}

}  // namespace waybill
