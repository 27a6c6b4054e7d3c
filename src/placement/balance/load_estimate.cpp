#include "waybill/load_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "placement/balance/kernel_time.h"
#include "placement/balance/share_trend.h"
#include "waybill/error.h"

namespace waybill {
namespace {

// A window that counts, and its place in the series: gaps of idle windows stay gaps.
struct Observation {
  double time;
  LoadMatrix load;
};

bool has_load(const LoadWindow& window) {
  if (window.idle) return false;
  for (std::size_t i = 0; i < window.load.layers().size(); ++i) {
    if (std::ranges::any_of(window.load.by_source(i), [](double v) { return v > 0; })) return true;
  }
  return false;
}

void check_options(const EstimateOptions& options) {
  const auto want = [](std::string_view field, bool holds, std::string_view expected,
                       double found) {
    if (holds) return;
    throw Error(Code::InvalidValue).at("field", field).expected(expected).found(found);
  };
  want("windows", options.windows >= 0, "0 or more", options.windows);
  want("beta", options.beta >= 0 && options.beta < 1, "in [0, 1)", options.beta);
  want("ahead", std::isfinite(options.ahead) && options.ahead >= 0, "0 or more", options.ahead);
  if (options.kernel_time) check_kernel_time(*options.kernel_time);
}

void check_shape(const LoadMatrix& load, const LoadMatrix& first) {
  const bool same = std::ranges::equal(load.layers(), first.layers()) &&
                    load.sources() == first.sources() && load.experts() == first.experts();
  if (same) return;
  const auto shape = [](const LoadMatrix& matrix) {
    return fmt::format("{} layers of {} sources of {} experts", matrix.layers().size(),
                       matrix.sources(), matrix.experts());
  };
  throw Error(Code::ShapeMismatch)
      .at("field", "windows")
      .expected(shape(first) + ", the layers of the first window")
      .found(shape(load));
}

// Adds a label to those that are named already.
void add_label(std::string& named, const std::string& label) {
  if (label.empty() || (", " + named + ", ").find(", " + label + ", ") != std::string::npos) return;
  named += (named.empty() ? "" : ", ") + label;
}

// What both windows state. Experts keep their meaning under another topology or placement, so
// windows of several may be put together; under another router or checkpoint they don't.
void join(LoadProvenance& all, const LoadProvenance& next) {
  if (next.counted != all.counted) {
    throw Error(Code::LoadProvenanceMismatch)
        .at("field", "counted")
        .expected(all.counted)
        .found(next.counted);
  }
  LoadProvenance bound = next, to = all;
  bound.phase = to.phase;
  bound.topology = to.topology;
  bound.placement = to.placement;
  check_provenance(bound, to);
  if (all.router.empty()) all.router = next.router;
  if (all.checkpoint.value.empty()) all.checkpoint = next.checkpoint;
  if (next.phase != all.phase) all.phase = LoadPhase::mixed;
  if (next.ranks != all.ranks) all.ranks = 0;
  add_label(all.topology, next.topology);
  add_label(all.placement.value, next.placement.value);
  all.first_step = all.first_step && next.first_step
                       ? std::optional(std::min(*all.first_step, *next.first_step))
                       : std::nullopt;
  all.last_step = all.last_step && next.last_step
                      ? std::optional(std::max(*all.last_step, *next.last_step))
                      : std::nullopt;
}

struct Observations {
  std::vector<Observation> used;  // oldest first, at least one
  std::size_t idle = 0;           // passed over among them
  LoadProvenance provenance;
};

Observations observations(std::span<const LoadWindow> windows, const EstimateOptions& options) {
  Observations found;
  for (std::size_t i = windows.size(); i-- > 0;) {
    if (options.windows > 0 && std::cmp_equal(found.used.size(), options.windows)) break;
    const LoadMatrix& load = windows[i].load;
    if (options.phase && load.provenance().phase != *options.phase) continue;
    if (!has_load(windows[i])) {
      ++found.idle;
      continue;
    }
    found.used.push_back(
        {static_cast<double>(i), options.kernel_time ? time_of(load, *options.kernel_time) : load});
  }
  if (found.used.empty()) {
    const std::string of =
        options.phase ? fmt::format(" of phase {}", name(*options.phase)) : std::string();
    throw Error(Code::MissingField)
        .at("field", "windows")
        .expected("a window" + of + " in which requests ran")
        .found(fmt::format("none among {}", windows.size()));
  }
  std::ranges::reverse(found.used);
  found.provenance = found.used[0].load.provenance();
  for (const Observation& next : found.used) {
    check_shape(next.load, found.used[0].load);
    join(found.provenance, next.load.provenance());
  }
  return found;
}

std::vector<double> values_of(const LoadMatrix& load) {
  std::vector<double> values;
  for (std::size_t i = 0; i < load.layers().size(); ++i) {
    const std::span<const double> layer = load.by_source(i);
    values.insert(values.end(), layer.begin(), layer.end());
  }
  return values;
}

// keep x the sum so far + add x the next window, from the oldest on.
std::vector<double> put_together(const Observations& seen, double keep, double add) {
  std::vector<double> sum = values_of(seen.used[0].load);
  for (std::size_t w = 1; w < seen.used.size(); ++w) {
    const std::vector<double> next = values_of(seen.used[w].load);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = keep * sum[i] + add * next[i];
  }
  return sum;
}

// The sum of the windows, scaled so that each expert has the share that its layer's trend leads to.
std::vector<double> along_trend(const Observations& seen, double ahead) {
  std::vector<double> sum = put_together(seen, 1, 1);
  const LoadMatrix& first = seen.used[0].load;
  const auto experts = static_cast<std::size_t>(first.experts());
  const std::size_t per_layer = experts * static_cast<std::size_t>(first.sources());
  for (std::size_t layer = 0; layer < first.layers().size(); ++layer) {
    const std::span<double> own = std::span(sum).subspan(layer * per_layer, per_layer);
    std::vector<double> total(experts, 0);
    for (std::size_t j = 0; j < own.size(); ++j) total[j % experts] += own[j];
    const double all = std::accumulate(total.begin(), total.end(), 0.0);
    if (all <= 0) continue;
    std::vector<TimedLoad> windows;
    for (const Observation& seen_in : seen.used) {
      windows.push_back({seen_in.time, seen_in.load.total(layer)});
    }
    const std::vector<double> share = shares_at(windows, seen.used.back().time + ahead);
    for (std::size_t j = 0; j < own.size(); ++j) {
      const std::size_t e = j % experts;
      if (total[e] > 0) own[j] *= share[e] * all / total[e];
    }
  }
  return sum;
}

std::string window_text(const Observations& seen, const EstimateOptions& options) {
  std::string text = fmt::format("{} {} windows", name(options.estimator), seen.used.size());
  if (options.estimator == Estimator::ema) text += fmt::format(", beta {}", options.beta);
  if (options.estimator == Estimator::trend) text += fmt::format(", {} ahead", options.ahead);
  if (seen.idle > 0) text += fmt::format(", {} idle passed over", seen.idle);
  return text;
}

}  // namespace

std::string_view name(Estimator estimator) {
  switch (estimator) {
    case Estimator::trailing: return "trailing";
    case Estimator::ema: return "ema";
    case Estimator::trend: return "trend";
  }
  return "";
}

LoadMatrix estimate_load(std::span<const LoadWindow> windows, const EstimateOptions& options) {
  check_options(options);
  Observations seen = observations(windows, options);
  std::vector<double> load;
  switch (options.estimator) {
    case Estimator::trailing: load = put_together(seen, 1, 1); break;
    case Estimator::ema: load = put_together(seen, options.beta, 1 - options.beta); break;
    case Estimator::trend: load = along_trend(seen, options.ahead); break;
  }
  LoadProvenance provenance = seen.provenance;
  provenance.window = window_text(seen, options);
  provenance.aggregation =
      options.estimator == Estimator::trailing ? Aggregation::count : Aggregation::moving;
  const LoadMatrix& first = seen.used[0].load;
  return {{first.layers().begin(), first.layers().end()},
          first.sources(),
          first.experts(),
          std::move(load),
          std::move(provenance)};
}

std::vector<LoadMatrix> estimate_by_phase(std::span<const LoadWindow> windows,
                                          const EstimateOptions& options) {
  std::vector<LoadMatrix> estimates;
  for (LoadPhase phase : {LoadPhase::prefill, LoadPhase::decode, LoadPhase::mixed}) {
    const auto of_phase = [&](const LoadWindow& window) {
      return window.load.provenance().phase == phase && has_load(window);
    };
    if (std::ranges::none_of(windows, of_phase)) continue;
    EstimateOptions one = options;
    one.phase = phase;
    estimates.push_back(estimate_load(windows, one));
  }
  return estimates;
}

}  // namespace waybill
