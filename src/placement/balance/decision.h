// Whether to leave the placement in force, and for which candidate.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "placement/balance/frontier.h"
#include "waybill/balance.h"

namespace waybill {

// What a decision is taken on.
struct Stake {
  double ratio_in_force = 1;
  std::int32_t slots = 0;
  std::int32_t layers = 1;  // that share the step's time
  bool must_move = false;   // the placement in force can't stay
};

struct Decision {
  std::optional<std::size_t> chosen;  // candidate; none: stay
  Verdict verdict = Verdict::moves;
  std::optional<double> saved_us, migration_us;
  std::string reason;
};

// With pay_off the candidate that saves most time over the horizon, net of its migration; else the
// one with the smallest weighted sum of balance and churn, if the gain is large enough.
Decision decide(const Stake& stake, std::span<const Candidate> candidates,
                const BalanceOptions& options);

}  // namespace waybill
