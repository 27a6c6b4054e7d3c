#include "machine_ceilings.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "machine_ceilings.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace waybill::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::CappedTag<float, 16>;

// Operations done.
double multiply_add(std::int64_t rounds, float* sink) {
  constexpr std::size_t chains = 12;  // covers the latency of two units
  const Lanes d;
  hn::Vec<Lanes> sums[chains];
  for (auto& sum : sums) sum = hn::Set(d, 1.0F);
  const auto factor = hn::Set(d, 0.999F);
  for (std::int64_t i = 0; i < rounds; ++i) {
    HWY_UNROLL(12)
    for (std::size_t c = 0; c < chains; ++c) sums[c] = hn::MulAdd(sums[c], factor, factor);
  }
  auto total = hn::Zero(d);
  for (const auto& sum : sums) total = hn::Add(total, sum);
  *sink = hn::GetLane(total);
  return 2.0 * static_cast<double>(chains * hn::Lanes(d)) * static_cast<double>(rounds);
}

void read(const float* values, std::size_t count, float* sink) {
  const Lanes d;
  auto a = hn::Zero(d);
  auto b = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += 2 * hn::Lanes(d)) {
    a = hn::Add(a, hn::Load(d, values + i));
    b = hn::Add(b, hn::Load(d, values + i + hn::Lanes(d)));
  }
  *sink = hn::GetLane(hn::Add(a, b));
}

}  // namespace waybill::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace waybill::bench {
namespace {

HWY_EXPORT(multiply_add);
HWY_EXPORT(read);

double best_seconds(int repeats, const auto& work) {
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

constexpr std::size_t cache_line_floats = 16;

}  // namespace

double fma_peak_gflops(ThreadPool& pool) {
  const auto threads = static_cast<std::size_t>(pool.threads());
  std::vector<float> sinks(threads * cache_line_floats);
  std::vector<double> operations(threads);
  const double seconds = best_seconds(5, [&] {
    pool.run(pool.threads(), [&](std::int32_t i) {
      const auto thread = static_cast<std::size_t>(i);
      operations[thread] =
          HWY_DYNAMIC_DISPATCH(multiply_add)(20'000'000, &sinks[thread * cache_line_floats]);
    });
  });
  double total = 0;
  for (const double done : operations) total += done;
  return total / seconds * 1e-9;
}

double dram_read_gbps(ThreadPool& pool) {
  constexpr std::size_t piece = std::size_t{1} << 20;  // floats
  constexpr std::int32_t pieces = 384;                 // 1.5 GiB, more than any cache
  std::vector<float> memory(piece * pieces, 1.0F);
  std::vector<float> sinks(static_cast<std::size_t>(pieces) * cache_line_floats);
  const double seconds = best_seconds(3, [&] {
    pool.run(pieces, [&](std::int32_t i) {
      const auto at = static_cast<std::size_t>(i);
      HWY_DYNAMIC_DISPATCH(read)(&memory[at * piece], piece, &sinks[at * cache_line_floats]);
    });
  });
  return static_cast<double>(memory.size() * sizeof(float)) / seconds * 1e-9;
}

}  // namespace waybill::bench
#endif
