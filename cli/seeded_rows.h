// Hidden rows for a run that has no recorded ones: the same on every machine for one seed.
#pragma once

#include <cstdint>
#include <vector>

#include "waybill/ids.h"

namespace waybill::cli {

// [tokens, hidden] f32 of mean 0 and variance 1, uniform; every layer has rows of its own.
std::vector<float> seeded_rows(std::uint64_t seed, LayerId layer, std::int64_t tokens,
                               std::int64_t hidden);

}  // namespace waybill::cli
