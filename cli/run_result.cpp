#include "run_result.h"

#include <algorithm>
#include <numeric>

namespace waybill::cli {
namespace {

std::optional<double> largest(const RunResult& result, double (Comparison::*measure)() const) {
  std::optional<double> value;
  for (const LayerRun& layer : result.layers) {
    for (const auto& comparison : {layer.check, layer.golden}) {
      if (!comparison || comparison->tokens == 0) continue;
      value = std::max(value.value_or(0), ((*comparison).*measure)());
    }
  }
  return value;
}

}  // namespace

double Comparison::max_rel_error() const {
  return std::max(experts_out.max_rel_error(), block_out.max_rel_error());
}

double Comparison::rel_frobenius() const {
  return std::max(experts_out.rel_frobenius(), block_out.rel_frobenius());
}

double LayerRun::busiest_over_mean() const {
  const auto sum = std::accumulate(rank_rows.begin(), rank_rows.end(), std::int64_t{0});
  if (sum == 0) return 1;
  return static_cast<double>(*std::ranges::max_element(rank_rows)) *
         static_cast<double>(rank_rows.size()) / static_cast<double>(sum);
}

std::int64_t RunResult::compared_rows() const {
  std::int64_t rows = 0;
  for (const LayerRun& layer : layers) {
    for (const auto& comparison : {layer.check, layer.golden}) {
      if (comparison) rows += comparison->tokens;
    }
  }
  return rows;
}

std::optional<double> RunResult::max_rel_error() const {
  return largest(*this, &Comparison::max_rel_error);
}

std::optional<double> RunResult::rel_frobenius() const {
  return largest(*this, &Comparison::rel_frobenius);
}

}  // namespace waybill::cli
