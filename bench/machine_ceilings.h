// What this machine can do at most, measured in the same run as the figures beside it.
#pragma once

#include "waybill/thread_pool.h"

namespace waybill::bench {

// FP32 fused multiply-adds in registers, two operations each.
double fma_peak_gflops(ThreadPool& pool);

// Reading memory that no cache holds.
double dram_read_gbps(ThreadPool& pool);

}  // namespace waybill::bench
