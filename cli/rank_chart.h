// Bars of rank loads for a terminal of 80 columns.
#pragma once

#include <span>
#include <string>

namespace waybill::cli {

// Loads over their mean, by rank. One line a rank, '#' up to `after` and '|' at `before` (which may
// be empty); of more than 32 ranks the heaviest and the lightest. NaN for a rank that takes no
// part. Coloured only when `colour` is set.
std::string rank_chart(std::span<const double> before, std::span<const double> after, bool colour);

// Standard output is a terminal, and the environment doesn't set NO_COLOR.
bool stdout_takes_colour();

}  // namespace waybill::cli
