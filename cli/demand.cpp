#include "demand.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "command_line.h"
#include "waybill/error.h"
#include "waybill/load_estimate.h"

namespace waybill::cli {
namespace {

template <class Enumeration, std::size_t N>
Enumeration named(std::string_view option, const std::string& word,
                  const std::array<Enumeration, N>& all) {
  std::string names;
  for (Enumeration candidate : all) {
    if (word == name(candidate)) return candidate;
    names += (names.empty() ? "" : ", ") + std::string(name(candidate));
  }
  throw Error(Code::UsageError)
      .at("option", option)
      .expected(fmt::format("one of {}", names))
      .found(word);
}

EstimateOptions estimate_options(const WindowOptions& options) {
  EstimateOptions how;
  how.estimator = named("--estimator", options.estimator,
                        std::to_array({Estimator::trailing, Estimator::ema, Estimator::trend}));
  if (!options.phase.empty()) {
    how.phase = named("--phase", options.phase,
                      std::to_array({LoadPhase::mixed, LoadPhase::prefill, LoadPhase::decode}));
  }
  how.windows = static_cast<std::int32_t>(options.newest);
  how.beta = options.beta;
  how.ahead = options.ahead;
  return how;
}

}  // namespace

void add_window_options(Subcommand& command, WindowOptions& options) {
  const char* group = "Windows of the file";
  command.word("--estimator", options.estimator, "NAME",
               "trailing: their sum; ema: newer ones weigh more; trend: drift carried on", group);
  command.word("--phase", options.phase, "NAME", "Those of mixed, prefill or decode", group);
  command.number("--windows", options.newest, Range{1, 1 << 20},
                 "The newest N that aren't idle; default all", group);
  command.real("--beta", options.beta, RealRange{0, 0.999999}, "Of ema: what the past weighs",
               group);
  command.real("--ahead", options.ahead, RealRange{0, 1e6}, "Of trend: windows past the newest",
               group);
}

Demand estimate(const LoadSeries& series, const WindowOptions& options) {
  const EstimateOptions how = estimate_options(options);
  const auto of_phase = [&](const LoadWindow& window) {
    return !how.phase || window.load.provenance().phase == *how.phase;
  };
  const auto counts = [&](const LoadWindow& window) { return of_phase(window) && !window.idle; };
  const auto windows = static_cast<std::size_t>(std::ranges::count_if(series.windows, counts));
  const auto all = static_cast<std::size_t>(std::ranges::count_if(series.windows, of_phase));
  if (windows == 0 && all > 0) {
    return {std::ranges::find_if(series.windows, of_phase)->load, 0, all};
  }
  const std::size_t used =
      how.windows > 0 ? std::min<std::size_t>(windows, static_cast<std::size_t>(how.windows))
                      : windows;
  return {estimate_load(series.windows, how), used, all - windows};
}

}  // namespace waybill::cli
