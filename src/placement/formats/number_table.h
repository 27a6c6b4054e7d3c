// Nested JSON arrays of numbers, read as one table.
#pragma once

#include <cstdint>
#include <vector>

#include "io/json_document.h"

namespace waybill {

struct NumberTable {
  std::vector<std::int64_t> shape;
  std::vector<double> values;  // row-major

  std::size_t axes() const { return shape.size(); }
  std::int32_t extent(std::size_t axis) const { return static_cast<std::int32_t>(shape[axis]); }
};

// An array of numbers, of such arrays, or of those: [n], [n, m] or [n, m, o]. "NaN", "inf" and the
// like as strings become those values, for the caller to refuse. ShapeMismatch (field) for rows of
// different lengths, an empty array or an extent above 2^20.
NumberTable read_numbers(JsonValue array);

}  // namespace waybill
