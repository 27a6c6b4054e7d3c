// Random bf16 values of one tensor, piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace waybill {

// Random sign and mantissa at one exponent: magnitudes in [2^n, 2^(n+1)), where n is such that a
// sum over `inputs` terms of unit size has about unit size too. 0 inputs: a bias, of magnitude near
// 0.1.
class RandomWeights {
 public:
  // The values follow from `seed` and `name` alone.
  RandomWeights(std::uint64_t seed, std::string_view name, std::int64_t inputs);

  // The next bytes, at most `wanted` (even) of them; valid until the next call.
  std::span<const std::byte> next(std::uint64_t wanted);

 private:
  std::uint64_t state_;
  std::uint64_t exponents_;  // of four values
  std::vector<std::uint64_t> piece_;
};

}  // namespace waybill
