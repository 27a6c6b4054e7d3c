// A loop over [0, n) cut into runs, one a thread of the pool.
#pragma once

#include <algorithm>
#include <cstdint>

#include "waybill/thread_pool.h"

namespace waybill {

// body(first, last) for disjoint runs that cover [0, n). Fewer than `grain` iterations a run aren't
// worth waking a thread for.
template <class Body>
void for_each_range(ThreadPool* pool, std::int64_t n, std::int64_t grain, const Body& body) {
  const std::int64_t threads = pool == nullptr ? 1 : pool->threads();
  const std::int64_t runs =
      std::clamp<std::int64_t>(n / std::max<std::int64_t>(grain, 1), 1, threads);
  if (runs == 1) {
    if (n > 0) body(std::int64_t{0}, n);
    return;
  }
  pool->run(static_cast<std::int32_t>(runs),
            [&](std::int32_t run) { body(n * run / runs, n * (run + 1) / runs); });
}

}  // namespace waybill
