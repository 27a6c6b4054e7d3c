#include <fmt/format.h>

#include "waybill/error.h"
#include "waybill/selection.h"

namespace waybill {

// Neighbouring routes go to histograms of their own, so that a run of one expert doesn't wait for
// its own last store.
std::vector<std::int64_t> count_experts(const RoutesView& routes, std::int32_t experts) {
  constexpr std::size_t lanes = 4;
  const auto bins = static_cast<std::size_t>(experts);
  std::vector<std::int32_t> histograms(lanes * bins, 0);
  for (std::size_t r = 0; r < routes.experts.size(); ++r) {
    const std::int32_t expert = routes.experts[r];
    if (static_cast<std::uint32_t>(expert) < static_cast<std::uint32_t>(experts)) {
      ++histograms[(r % lanes) * bins + static_cast<std::size_t>(expert)];
    } else if (expert != dropped_route) {
      const RouteId route{static_cast<std::int32_t>(r)};
      throw Error(Code::ExpertIdOutOfRange)
          .at("token", routes.token(route))
          .at("route_slot", routes.slot(route))
          .expected(fmt::format("an expert in [0, {})", experts))
          .found(expert);
    }
  }
  std::vector<std::int64_t> counts(bins, 0);
  for (std::size_t i = 0; i < histograms.size(); ++i) counts[i % bins] += histograms[i];
  return counts;
}

}  // namespace waybill
