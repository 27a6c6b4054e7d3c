#include "placement/balance/eplb_sort.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

namespace waybill {
namespace {

constexpr std::ptrdiff_t kInsertionSize = 16;

bool before(const KeyedIndex& a, const KeyedIndex& b) { return a.key > b.key; }

// Restores the heap of h[0, size) after `hole` was vacated, placing `value`.
void sift(KeyedIndex* h, std::ptrdiff_t hole, std::ptrdiff_t size, KeyedIndex value) {
  const std::ptrdiff_t top = hole;
  std::ptrdiff_t child = hole;
  while (child < (size - 1) / 2) {
    child = 2 * (child + 1);
    if (before(h[child], h[child - 1])) --child;
    h[hole] = h[child];
    hole = child;
  }
  if (size % 2 == 0 && child == (size - 2) / 2) {
    child = 2 * (child + 1);
    h[hole] = h[child - 1];
    hole = child - 1;
  }
  while (hole > top && before(h[(hole - 1) / 2], value)) {
    h[hole] = h[(hole - 1) / 2];
    hole = (hole - 1) / 2;
  }
  h[hole] = value;
}

void heap_sort(KeyedIndex* h, std::ptrdiff_t size) {
  for (std::ptrdiff_t parent = (size - 2) / 2; parent >= 0; --parent) {
    sift(h, parent, size, h[parent]);
  }
  for (std::ptrdiff_t end = size - 1; end > 0; --end) {
    const KeyedIndex value = h[end];
    h[end] = h[0];
    sift(h, 0, end, value);
  }
}

KeyedIndex* median(KeyedIndex* a, KeyedIndex* b, KeyedIndex* c) {
  if (before(*a, *b)) {
    if (before(*b, *c)) return b;
    return before(*a, *c) ? c : a;
  }
  if (before(*a, *c)) return a;
  return before(*b, *c) ? c : b;
}

// Splits [first, last) around the median of three, which moves to *first; returns the cut.
KeyedIndex* partition(KeyedIndex* first, KeyedIndex* last) {
  std::swap(*first, *median(first + 1, first + (last - first) / 2, last - 1));
  KeyedIndex* low = first + 1;
  KeyedIndex* high = last;
  while (true) {
    while (before(*low, *first)) ++low;
    --high;
    while (before(*first, *high)) --high;
    if (low >= high) return low;
    std::swap(*low, *high);
    ++low;
  }
}

void quick_sort(KeyedIndex* first, KeyedIndex* last, int depth) {
  while (last - first > kInsertionSize) {
    if (depth == 0) {
      heap_sort(first, last - first);
      return;
    }
    --depth;
    KeyedIndex* cut = partition(first, last);
    quick_sort(cut, last, depth);
    last = cut;
  }
}

void insertion_sort(std::span<KeyedIndex> items) {
  for (std::size_t i = 1; i < items.size(); ++i) {
    const KeyedIndex item = items[i];
    std::size_t at = i;
    while (at > 0 && before(item, items[at - 1])) {
      items[at] = items[at - 1];
      --at;
    }
    items[at] = item;
  }
}

}  // namespace

void eplb_sort(std::span<KeyedIndex> items) {
  if (items.size() < 2) return;
  const auto log2 = static_cast<int>(std::bit_width(items.size())) - 1;
  quick_sort(items.data(), items.data() + items.size(), 2 * log2);
  insertion_sort(items);
}

}  // namespace waybill
