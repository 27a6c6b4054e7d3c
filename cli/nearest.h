// Names that a mistyped word may have meant.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace waybill::cli {

// The `count` names that are nearest to `word` by edit distance, letter case ignored; nearest
// first.
std::vector<std::string> nearest(std::string_view word, std::span<const std::string> names,
                                 std::size_t count);

}  // namespace waybill::cli
