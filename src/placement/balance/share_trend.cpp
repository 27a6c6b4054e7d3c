#include "placement/balance/share_trend.h"

#include <algorithm>
#include <numeric>

namespace waybill {
namespace {

double sum_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Weighted least squares of every expert's share against time. A window weighs by its load, as the
// noise of a share falls with the rows that it is counted from.
struct ShareLines {
  double mean_time = 0;
  std::vector<double> mean;   // [E] the share of all windows together
  std::vector<double> slope;  // [E] per unit of time
  double drift = 0;           // part of the slopes that noise doesn't explain, in [0, 1]
};

ShareLines fit(std::span<const TimedLoad> windows) {
  const std::size_t experts = windows[0].load.size();
  ShareLines lines{0, std::vector<double>(experts, 0), std::vector<double>(experts, 0), 0};
  double all = 0;
  for (const TimedLoad& window : windows) {
    const double weight = sum_of(window.load);
    all += weight;
    lines.mean_time += weight * window.time;
    for (std::size_t e = 0; e < experts; ++e) lines.mean[e] += window.load[e];
  }
  lines.mean_time /= all;
  for (double& share : lines.mean) share /= all;

  double spread = 0;  // of time
  for (const TimedLoad& window : windows) {
    const double away = window.time - lines.mean_time;
    spread += sum_of(window.load) * away * away;
    for (std::size_t e = 0; e < experts; ++e) lines.slope[e] += window.load[e] * away;
  }
  if (windows.size() < 3 || spread <= 0) {
    std::ranges::fill(lines.slope, 0);
    return lines;
  }
  double moved = 0, noise = 0;  // sums of squares: slopes, and their standard errors
  for (std::size_t e = 0; e < experts; ++e) {
    lines.slope[e] /= spread;
    moved += lines.slope[e] * lines.slope[e];
    double left = 0;
    for (const TimedLoad& window : windows) {
      const double weight = sum_of(window.load);
      if (weight <= 0) continue;
      const double on_line = lines.mean[e] + lines.slope[e] * (window.time - lines.mean_time);
      const double off = window.load[e] / weight - on_line;
      left += weight * off * off;
    }
    noise += left / static_cast<double>(windows.size() - 2) / spread;
  }
  lines.drift = moved > 0 ? std::clamp(1 - noise / moved, 0.0, 1.0) : 0;
  return lines;
}

}  // namespace

std::vector<double> shares_at(std::span<const TimedLoad> windows, double when) {
  const ShareLines lines = fit(windows);
  std::vector<double> shares;
  for (std::size_t e = 0; e < lines.mean.size(); ++e) {
    const double moved = lines.drift * lines.slope[e] * (when - lines.mean_time);
    shares.push_back(std::max(0.0, lines.mean[e] + moved));
  }
  const double sum = sum_of(shares);
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace waybill
