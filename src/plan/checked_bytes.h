// Products and sums of counts and widths that a file may have declared.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "waybill/error.h"

namespace waybill {

// The product of `factors`; InvalidValue, naming the figure, when one is negative or the product
// leaves 64 bits.
inline std::int64_t checked_bytes(std::string_view figure,
                                  std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (factor < 0 || __builtin_mul_overflow(product, factor, &product)) {
      throw Error(Code::InvalidValue)
          .at("bytes of", figure)
          .expected("factors from 0 and at most 2^63-1 bytes")
          .found(factor);
    }
  }
  return product;
}

inline std::int64_t checked_sum(std::string_view figure,
                                std::initializer_list<std::int64_t> terms) {
  std::int64_t sum = 0;
  for (const std::int64_t term : terms) {
    if (__builtin_add_overflow(sum, term, &sum)) {
      throw Error(Code::InvalidValue)
          .at("bytes of", figure)
          .expected("at most 2^63-1 bytes")
          .found(term);
    }
  }
  return sum;
}

}  // namespace waybill
