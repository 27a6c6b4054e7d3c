// Which copy counts fit a set of ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace waybill {

// Gale-Ryser: copy counts that fill the slots of ranks can be seated with no two copies of an
// expert on a rank when, for every j, the copies past each expert's j-th add up to no more than
// what all but the j largest ranks hold.
class Room {
 public:
  // `slots` of each rank.
  explicit Room(std::vector<std::int32_t> slots) : left_(slots.size()) {
    std::ranges::sort(slots, std::greater<>());
    std::int32_t behind = 0;
    for (std::size_t j = slots.size(); j-- > 0;) {
      left_[j] = behind;
      behind += slots[j];
    }
  }
  // Whether an expert with `copies` may have one more.
  bool admits(std::int32_t copies) const {
    const auto end = left_.begin() + copies;
    return std::all_of(left_.begin(), end, [](std::int32_t left) { return left > 0; });
  }
  // Gives an expert with `copies` one more.
  void take(std::int32_t copies) {
    for (std::int32_t j = 0; j < copies; ++j) --left_[static_cast<std::size_t>(j)];
  }

 private:
  std::vector<std::int32_t> left_;  // [j - 1] copies past the j-th that still fit
};

}  // namespace waybill
