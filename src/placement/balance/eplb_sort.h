// The order in which the public solver visits loads: descending, and equal loads as an unstable
// introsort leaves them. That order is part of its result, so it is spelt out here instead of
// being borrowed from a standard library, which may change it.
#pragma once

#include <cstdint>
#include <span>

namespace waybill {

struct KeyedIndex {
  float key;  // not NaN
  std::int32_t index;
};

// Sorts by descending key; `items` start in index order. Equals GNU libstdc++'s std::sort with the
// comparison a.key > b.key: median-of-three quicksort down to 16 items, heap sort once its depth
// budget is spent, one insertion pass.
void eplb_sort(std::span<KeyedIndex> items);

}  // namespace waybill
