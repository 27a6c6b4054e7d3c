#include "placement/balance/decision.h"

#include <fmt/format.h>

#include <limits>

namespace waybill {
namespace {

constexpr double kBitsPerByte = 8, kGigabitsPerMicrosecond = 1e3;

// Share of the slowest rank's time that a candidate takes away.
double gain(const Stake& stake, const Candidate& candidate) {
  return 1 - candidate.ratio / stake.ratio_in_force;
}

double saved_us(const Stake& stake, const Candidate& candidate, const PayOff& pay_off) {
  return pay_off.step_us / stake.layers * gain(stake, candidate) *
         static_cast<double>(pay_off.horizon_steps);
}

// Ranks receive at the same time, so the busiest one decides.
double migration_us(const Candidate& candidate, const BalanceOptions& options) {
  const double bits =
      kBitsPerByte * static_cast<double>(options.expert_bytes) * candidate.most_changed;
  return bits / (options.pay_off->link_gbps * kGigabitsPerMicrosecond);
}

// What is to be small: microseconds with pay_off, else shares of the mean rank time.
double cost(const Stake& stake, const Candidate& candidate, const BalanceOptions& options) {
  if (options.pay_off) {
    return migration_us(candidate, options) - saved_us(stake, candidate, *options.pay_off);
  }
  const double changed = static_cast<double>(candidate.changed) / stake.slots;
  return options.weights.balance * candidate.ratio +
         (options.weights.churn + options.weights.migration) * changed;
}

// Of the candidates that change something.
std::optional<std::size_t> cheapest(const Stake& stake, std::span<const Candidate> candidates,
                                    const BalanceOptions& options) {
  std::optional<std::size_t> best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::int32_t limit = options.max_changed_slots.value_or(stake.slots);
    if (candidates[i].changed == 0 || candidates[i].changed > limit) continue;
    const double it_costs = cost(stake, candidates[i], options);
    if (it_costs < best_cost) {
      best = i;
      best_cost = it_costs;
    }
  }
  return best;
}

Decision stay(Decision decision, Verdict verdict, std::string reason) {
  decision.chosen.reset();
  decision.verdict = verdict;
  decision.reason = std::move(reason);
  return decision;
}

}  // namespace

Decision decide(const Stake& stake, std::span<const Candidate> candidates,
                const BalanceOptions& options) {
  Decision decision;
  decision.chosen = cheapest(stake, candidates, options);
  if (!decision.chosen) {
    return stay(decision, Verdict::balanced,
                "stays: nothing better within the slots that may change");
  }
  const Candidate& chosen = candidates[*decision.chosen];
  if (options.pay_off) {
    decision.saved_us = saved_us(stake, chosen, *options.pay_off);
    decision.migration_us = migration_us(chosen, options);
  }
  decision.reason = fmt::format("moves {} of {} slots: largest rank {:.4f} -> {:.4f} of the mean",
                                chosen.changed, stake.slots, stake.ratio_in_force, chosen.ratio);
  if (stake.must_move) return decision;
  const double share = gain(stake, chosen);
  if (share <= 0) return stay(decision, Verdict::balanced, "stays: nothing better was found");
  if (options.pay_off && *decision.saved_us <= *decision.migration_us) {
    return stay(decision, Verdict::does_not_pay,
                fmt::format("stays: moving {} slots takes {:.0f} us and saves {:.0f} us over {} "
                            "steps",
                            chosen.changed, *decision.migration_us, *decision.saved_us,
                            options.pay_off->horizon_steps));
  }
  if (!options.pay_off && share < options.min_gain) {
    return stay(decision, Verdict::gain_too_small,
                fmt::format("stays: the largest rank would fall by {:.2g} %, less than {:.2g} %; "
                            "pay-off unknown",
                            100 * share, 100 * options.min_gain));
  }
  const double staying = options.weights.balance * stake.ratio_in_force;
  if (!options.pay_off && cost(stake, chosen, options) >= staying) {
    return stay(decision, Verdict::does_not_pay,
                fmt::format("stays: changing {} slots weighs more than a fall by {:.2g} %",
                            chosen.changed, 100 * share));
  }
  return decision;
}

}  // namespace waybill
