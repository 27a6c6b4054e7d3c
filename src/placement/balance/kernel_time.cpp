#include "placement/balance/kernel_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "waybill/error.h"

namespace waybill {
namespace {

// Microseconds of `rows` rows in one step.
double time_at(const KernelTime& kernel, double rows) {
  const auto next = std::ranges::upper_bound(kernel.rows, rows);
  const auto last = std::ssize(kernel.rows) - 1;
  const auto high = std::min(next - kernel.rows.begin(), last);
  const double x1 = kernel.rows[static_cast<std::size_t>(high)];
  const double y1 = kernel.us[static_cast<std::size_t>(high)];
  const double x0 = high == 0 ? 0 : kernel.rows[static_cast<std::size_t>(high - 1)];
  const double y0 = high == 0 ? 0 : kernel.us[static_cast<std::size_t>(high - 1)];
  return y0 + (y1 - y0) * ((rows - x0) / (x1 - x0));
}

double steps_of(const LoadProvenance& provenance) {
  if (provenance.first_step && provenance.last_step) {
    return static_cast<double>(*provenance.last_step - *provenance.first_step + 1);
  }
  throw Error(Code::MissingField)
      .at("field", "first_step, last_step")
      .expected("the steps that rows were counted in, as time depends on rows a step")
      .found("none");
}

}  // namespace

void check_kernel_time(const KernelTime& kernel) {
  if (kernel.rows.empty() || kernel.rows.size() != kernel.us.size()) {
    throw Error(Code::ShapeMismatch)
        .at("field", "kernel_time")
        .expected("a time for each number of rows, one at least")
        .found(fmt::format("{} numbers of rows, {} times", kernel.rows.size(), kernel.us.size()));
  }
  double rows = 0, us = 0;
  for (std::size_t i = 0; i < kernel.rows.size(); ++i) {
    const bool rises = kernel.rows[i] > rows && kernel.us[i] >= us && kernel.us[i] > 0;
    if (!rises || !std::isfinite(kernel.rows[i]) || !std::isfinite(kernel.us[i])) {
      throw Error(Code::InvalidValue)
          .at("field", "kernel_time")
          .at("point", i)
          .expected("finite rows and times above 0, rising")
          .found(fmt::format("{} rows, {} us", kernel.rows[i], kernel.us[i]));
    }
    rows = kernel.rows[i];
    us = kernel.us[i];
  }
}

LoadMatrix time_of(const LoadMatrix& load, const KernelTime& kernel) {
  LoadProvenance provenance = load.provenance();
  if (provenance.unit != LoadUnit::rows) {
    throw Error(Code::LoadUnitMismatch).expected(name(LoadUnit::rows)).found(name(provenance.unit));
  }
  const double steps = steps_of(provenance);
  provenance.unit = LoadUnit::time_us;
  std::vector<double> times;
  for (std::size_t i = 0; i < load.layers().size(); ++i) {
    const std::vector<double> total = load.total(i);
    const std::span<const double> rows = load.by_source(i);
    for (std::size_t j = 0; j < rows.size(); ++j) {
      const double all = total[j % total.size()];
      times.push_back(all > 0 ? steps * time_at(kernel, all / steps) * (rows[j] / all) : 0);
    }
  }
  return {{load.layers().begin(), load.layers().end()},
          load.sources(),
          load.experts(),
          std::move(times),
          std::move(provenance)};
}

}  // namespace waybill
