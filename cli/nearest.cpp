#include "nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace waybill::cli {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// Order of preference; smaller is nearer.
std::pair<int, std::size_t> distance(std::string_view word, std::string_view name) {
  const auto same = [](char a, char b) { return lower(a) == lower(b); };
  const auto* const found = std::search(name.begin(), name.end(), word.begin(), word.end(), same);
  const int kind = found == name.end() ? 2 : found == name.begin() ? 0 : 1;
  return {kind, edit_distance(word, name)};
}

}  // namespace

std::vector<std::string> nearest(std::string_view word, std::span<const std::string> names,
                                 std::size_t count) {
  std::vector<std::string> ranked(names.begin(), names.end());
  std::ranges::stable_sort(ranked, {},
                           [&](const std::string& name) { return distance(word, name); });
  ranked.resize(std::min(count, ranked.size()));
  return ranked;
}

}  // namespace waybill::cli
