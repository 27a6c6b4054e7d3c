#include "seeded_rows.h"

#include <random>

namespace waybill::cli {

std::vector<float> seeded_rows(std::uint64_t seed, LayerId layer, std::int64_t tokens,
                               std::int64_t hidden) {
  constexpr float half_width = 1.7320508F;  // sqrt(3): variance 1
  std::mt19937_64 random(seed ^ (static_cast<std::uint64_t>(layer.index() + 1) << 40));
  std::vector<float> rows(static_cast<std::size_t>(tokens * hidden));
  for (float& value : rows) {
    const auto bits = static_cast<float>(random() >> 40);  // 24 bits, exact in f32
    value = (bits * 0x1p-23F - 1.0F) * half_width;
  }
  return rows;
}

}  // namespace waybill::cli
