#include "model/random_weights.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "waybill/hash.h"

namespace waybill {
namespace {

static_assert(std::endian::native == std::endian::little, "the files hold little-endian values");

constexpr std::size_t piece_words = std::size_t{1} << 15U;
constexpr std::uint64_t four_lanes = 0x0001'0001'0001'0001;

std::uint64_t draw(std::uint64_t& state) {
  return splitmix64(std::exchange(state, state + splitmix64_step));
}

// Magnitudes average 1.5 times two to this: near one over the root of the number of inputs.
std::int32_t exponent(std::int64_t inputs) {
  if (inputs == 0) return -4;
  return -static_cast<std::int32_t>((std::bit_width(static_cast<std::uint64_t>(inputs)) + 1) / 2);
}

}  // namespace

RandomWeights::RandomWeights(std::uint64_t seed, std::string_view name, std::int64_t inputs)
    : state_(Fnv1a().add(std::as_bytes(std::span(name))).value() ^ draw(seed)),
      exponents_(static_cast<std::uint64_t>(127 + exponent(inputs)) * (four_lanes << 7U)) {}

std::span<const std::byte> RandomWeights::next(std::uint64_t wanted) {
  piece_.resize(std::min<std::uint64_t>(piece_words, (wanted + 7) / 8));
  for (std::uint64_t& word : piece_) word = exponents_ | (draw(state_) & (four_lanes * 0x807F));
  const auto bytes = std::as_bytes(std::span(piece_));
  return bytes.first(std::min<std::uint64_t>(wanted, bytes.size()));
}

}  // namespace waybill
