// Stands in for exact_layer.cpp in a build without CBC.
#include "placement/balance/exact_layer.h"
#include "waybill/error.h"

namespace waybill {

ExactLayer solve_exactly(const LayerProblem& /*problem*/, std::span<const std::int32_t> /*start*/,
                         double /*seconds*/) {
  throw Error(Code::OptionNotBuilt)
      .at("solver", "exact")
      .expected("a build with CBC (WAYBILL_CBC=ON and Debian's coinor-libcbc-dev)")
      .note("solver waybill needs nothing and comes close");
}

}  // namespace waybill
