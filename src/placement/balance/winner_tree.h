// Which of n indices has the smallest or largest value, while values change one at a time.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace waybill {

// A tournament over non-negative binary32 values; among equal values the lowest index wins. Each
// entry is one integer, the value's bits above the index: bits of non-negative floats order as the
// floats do (adding 0 turns -0 into 0), so a match is one comparison without a branch.
class WinnerTree {
 public:
  enum class Wins : std::uint32_t { smallest = 0, largest = ~0U };
  explicit WinnerTree(Wins wins) : flip_(static_cast<std::uint32_t>(wins)) {}

  // All of [0, n) with value 0 take part once refresh() has run.
  void reset(std::size_t n) {
    leaves_ = std::bit_ceil(n);
    entry_.assign(2 * leaves_, kOut);
    for (std::size_t i = 0; i < n; ++i) set(i, 0);
  }
  // Writes a value without playing its matches; refresh() plays all of them.
  void set(std::size_t index, float value) { entry_[leaves_ + index] = entry(index, value); }
  void refresh() {
    for (std::size_t at = leaves_ - 1; at > 0; --at) play(at);
  }
  void update(std::size_t index, float value) { replace(index, entry(index, value)); }
  void take_out(std::size_t index) { replace(index, kOut); }

  bool empty() const { return entry_[1] == kOut; }
  // Not empty.
  std::size_t winner() const {
    assert(!empty());
    return static_cast<std::uint32_t>(entry_[1]);
  }

 private:
  static constexpr std::uint64_t kOut = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t entry(std::size_t index, float value) const {
    return std::uint64_t{std::bit_cast<std::uint32_t>(value + 0.0F) ^ flip_} << 32U | index;
  }
  void play(std::size_t at) {
    const std::uint64_t a = entry_[2 * at], b = entry_[2 * at + 1];
    entry_[at] = a < b ? a : b;
  }
  void replace(std::size_t index, std::uint64_t value) {
    entry_[leaves_ + index] = value;
    for (std::size_t at = (leaves_ + index) / 2; at > 0; at /= 2) play(at);
  }

  std::uint32_t flip_;
  std::size_t leaves_ = 0;
  std::vector<std::uint64_t> entry_;  // [1] the winner, children of i at 2i and 2i + 1
};

}  // namespace waybill
