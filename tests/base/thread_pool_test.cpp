#include "waybill/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace waybill {
namespace {

TEST(ThreadPool, RunsEveryTaskOnceOnAnyNumberOfThreads) {
  for (int threads : {0, 1, 2, 5}) {
    ThreadPool pool(threads);
    for (int tasks : {0, 1, 3, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
      pool.run(tasks, [&](std::int32_t i) { runs[static_cast<std::size_t>(i)]++; });
      for (const auto& n : runs) EXPECT_EQ(n.load(), 1);
    }
  }
}

TEST(ThreadPool, AFailedTaskIsRethrownAndThePoolStaysUsable) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.run(10,
                        [](std::int32_t i) {
                          if (i == 4) throw std::runtime_error("task 4");
                        }),
               std::runtime_error);
  std::atomic<int> sum{0};
  pool.run(10, [&](std::int32_t i) { sum += i; });
  EXPECT_EQ(sum.load(), 45);
}

}  // namespace
}  // namespace waybill
