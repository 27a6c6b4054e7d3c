#include "table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace waybill::bench {
namespace {

constexpr std::string_view line =
    "{:<8} {:<36} {:>9} {:<3} {:>4} {:>9} {:>9} {:>9} {:>13} {:<23} {:>6} {:>10} {:>10} {:>7} {}\n";

std::string text(std::optional<double> value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

}  // namespace

double Samples::quantile(double q) const {
  std::vector<double> sorted = values_;
  std::ranges::sort(sorted);
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

void print_header() {
  fmt::print(line, "bench", "cell", "value", "", "n", "p10", "p90", "ceiling", "ceiling_ratio",
             "peer", "peer_n", "peer_value", "peer_ratio", "limit", "evidence");
}

void print(const Row& row) {
  const double value = row.times.median();
  std::optional<double> ceiling_ratio, peer_value, peer_ratio;
  if (row.ceiling) ceiling_ratio = *row.ceiling / value;
  if (row.peer) {
    peer_value = row.peer->times.median();
    peer_ratio = *peer_value / value;
  }
  fmt::print(line, row.bench, row.cell, text(value, 3), row.unit, row.times.size(),
             text(row.times.quantile(0.1), 3), text(row.times.quantile(0.9), 3),
             text(row.ceiling, 3), text(ceiling_ratio, 2), row.peer ? row.peer->name : "none",
             row.peer ? fmt::to_string(row.peer->times.size()) : "-", text(peer_value, 3),
             text(peer_ratio, 2), text(row.limit, 1), "measured time");
}

}  // namespace waybill::bench
