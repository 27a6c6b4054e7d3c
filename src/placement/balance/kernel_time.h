// Rows of a window as the time that they take.
#pragma once

#include "waybill/load_estimate.h"

namespace waybill {

// InvalidValue for points that aren't positive, finite and rising.
void check_kernel_time(const KernelTime& kernel);

// Time of each expert's rows over the window's steps, at its mean rows a step; sources share it by
// their rows. LoadUnitMismatch for a load that isn't rows, MissingField without steps.
LoadMatrix time_of(const LoadMatrix& load, const KernelTime& kernel);

}  // namespace waybill
