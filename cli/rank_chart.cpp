#include "rank_chart.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <vector>

#include "text.h"

namespace waybill::cli {
namespace {

constexpr std::size_t most_bars = 32, shown_of_many = 12;  // at each end
constexpr double noticeable = 1.05, heavy = 1.2;           // over the mean

std::string_view colour_of(double share) {
  if (share > heavy) return "\x1b[31m";
  return share > noticeable ? "\x1b[33m" : "\x1b[32m";
}

class Chart {
 public:
  Chart(std::span<const double> before, std::span<const double> after, bool colour)
      : before_(before), after_(after), colour_(colour) {
    for (double share : after) largest_ = std::max(largest_, share);  // NaN never wins
    for (double share : before) largest_ = std::max(largest_, share);
  }

  std::string head() const {
    return before_.empty() ? fmt::format("{:>6} {:>8}  (# load over the mean)\n", "rank", "after")
                           : fmt::format(
                                 "{:>6} {:>8} {:>8}  (load over the mean: # after, | "
                                 "before)\n",
                                 "rank", "before", "after");
  }

  std::string line(std::size_t rank) const {
    std::string text = fmt::format("{:>6} ", rank);
    if (!before_.empty()) text += fmt::format("{:>8.4f} ", before_[rank]);
    text += fmt::format("{:>8.4f}  ", after_[rank]);
    const std::size_t columns = page_columns - text.size();
    const std::size_t end = column(after_[rank], columns);
    std::string bar(end, '#');
    if (colour_) bar = fmt::format("{}{}\x1b[0m", colour_of(after_[rank]), bar);
    text += bar;
    if (!before_.empty()) {
      const std::size_t mark = column(before_[rank], columns);
      if (mark > end) text += std::string(mark - end - 1, ' ') + '|';
    }
    return text + '\n';
  }

 private:
  std::size_t column(double share, std::size_t columns) const {
    return static_cast<std::size_t>(std::lround(share / largest_ * static_cast<double>(columns)));
  }

  std::span<const double> before_, after_;
  bool colour_;
  double largest_ = 1;
};

}  // namespace

std::string rank_chart(std::span<const double> before, std::span<const double> after, bool colour) {
  std::vector<std::size_t> ranks;
  for (std::size_t p = 0; p < after.size(); ++p) {
    if (!std::isnan(after[p])) ranks.push_back(p);
  }
  const Chart chart(before, after, colour);
  std::string text = chart.head();
  if (ranks.size() <= most_bars) {
    for (std::size_t rank : ranks) text += chart.line(rank);
    return text;
  }
  const auto by = before.empty() ? after : before;
  std::ranges::stable_sort(ranks, [&](std::size_t a, std::size_t b) { return by[a] > by[b]; });
  const std::span<const std::size_t> all(ranks);
  for (std::size_t rank : all.first(shown_of_many)) text += chart.line(rank);
  text += fmt::format("{:>6} {} ranks between, by load {}\n", "...",
                      ranks.size() - 2 * shown_of_many, before.empty() ? "after" : "before");
  for (std::size_t rank : all.last(shown_of_many)) text += chart.line(rank);
  return text;
}

bool stdout_takes_colour() {
  const char* refused = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && (refused == nullptr || *refused == '\0');
}

}  // namespace waybill::cli
