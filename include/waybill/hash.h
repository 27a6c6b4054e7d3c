// Hashes for choices and quick comparisons, equal on every machine and device. They are no proof
// against someone who looks for a collision: that is what digest.h is for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace waybill {

// What SplitMix64 (Steele, Lea and Flood 2014) makes of its state; the next state is
// `state` + splitmix64_step.
inline constexpr std::uint64_t splitmix64_step = 0x9e3779b97f4a7c15;
constexpr std::uint64_t splitmix64(std::uint64_t state) {
  std::uint64_t x = state + splitmix64_step;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// FNV-1a over 64 bits.
class Fnv1a {
 public:
  constexpr Fnv1a& add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      value_ = (value_ ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
    }
    return *this;
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace waybill
