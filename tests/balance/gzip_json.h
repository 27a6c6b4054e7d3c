// Recorded data as JSON documents, plain or gzip.
#pragma once

#include <string>
#include <vector>

#include "io/json_document.h"

namespace waybill::testing {

// Reads tests/data/`name`; a gzip file is unpacked first.
JsonDocument read_recorded(const std::string& name);

// The numbers of an array of arrays, row by row.
template <class T>
std::vector<T> flat(JsonValue rows) {
  std::vector<T> values;
  for (JsonValue row : rows.elements()) {
    if (row.is(JsonKind::array)) {
      for (T value : flat<T>(row)) values.push_back(value);
    } else {
      values.push_back(static_cast<T>(row.as_number()));
    }
  }
  return values;
}

}  // namespace waybill::testing
