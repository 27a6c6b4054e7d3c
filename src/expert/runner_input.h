// What every runner demands of its input.
#pragma once

#include "waybill/expert.h"

namespace waybill {

// Throws as ExpertRunner::run documents.
void check(const RunnerInput& input);

inline std::int64_t rows(const RunnerInput& input) {
  return input.offsets.empty() ? 0 : input.offsets.back();
}

}  // namespace waybill
