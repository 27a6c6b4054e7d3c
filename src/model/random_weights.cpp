#include "model/random_weights.h"

#include <algorithm>
#include <bit>

namespace waybill {
namespace {

static_assert(std::endian::native == std::endian::little, "the files hold little-endian values");

constexpr std::size_t piece_words = std::size_t{1} << 15U;
constexpr std::uint64_t four_lanes = 0x0001'0001'0001'0001;

// SplitMix64 (Steele, Lea and Flood 2014).
std::uint64_t draw(std::uint64_t& state) {
  std::uint64_t z = state += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EB;
  return z ^ (z >> 31U);
}

// FNV-1a.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return value;
}

// Magnitudes average 1.5 times two to this: near one over the root of the number of inputs.
std::int32_t exponent(std::int64_t inputs) {
  if (inputs == 0) return -4;
  return -static_cast<std::int32_t>((std::bit_width(static_cast<std::uint64_t>(inputs)) + 1) / 2);
}

}  // namespace

RandomWeights::RandomWeights(std::uint64_t seed, std::string_view name, std::int64_t inputs)
    : state_(hash(name) ^ draw(seed)),
      exponents_(static_cast<std::uint64_t>(127 + exponent(inputs)) * (four_lanes << 7U)) {}

std::span<const std::byte> RandomWeights::next(std::uint64_t wanted) {
  piece_.resize(std::min<std::uint64_t>(piece_words, (wanted + 7) / 8));
  for (std::uint64_t& word : piece_) word = exponents_ | (draw(state_) & (four_lanes * 0x807F));
  const auto bytes = std::as_bytes(std::span(piece_));
  return bytes.first(std::min<std::uint64_t>(wanted, bytes.size()));
}

}  // namespace waybill
