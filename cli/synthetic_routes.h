// Routes without a model: for planning on paper.
#pragma once

#include <cstdint>
#include <string_view>

#include "waybill/router.h"

namespace waybill::cli {

struct SyntheticRoutes {
  std::string_view popularity;  // "uniform", or "zipf": expert e is chosen in proportion to 1/(e+1)
  std::int32_t experts = 0;
  std::int32_t topk = 0;
  std::uint64_t seed = 0;
};

// `tokens` rows of distinct experts in order of choice; every gate is 1/k.
RoutingResult make_routes(const SyntheticRoutes& synthetic, std::int64_t tokens);

}  // namespace waybill::cli
