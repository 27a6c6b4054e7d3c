#include "waybill/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "support/fault.h"

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

// While it lives, each thread wants a gibibyte of stack, and the process may grow by two and a
// half.
class FewThreads {
 public:
  FewThreads() {
    pthread_getattr_default_np(&attributes_);
    pthread_attr_t large;
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, std::size_t{1} << 30U);
    pthread_setattr_default_np(&large);
    pthread_attr_destroy(&large);
    getrlimit(RLIMIT_AS, &limit_);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit few = limit_;
    few.rlim_cur =
        pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + (std::size_t{5} << 29U);
    setrlimit(RLIMIT_AS, &few);
  }
  FewThreads(const FewThreads&) = delete;
  FewThreads& operator=(const FewThreads&) = delete;
  ~FewThreads() {
    setrlimit(RLIMIT_AS, &limit_);
    pthread_setattr_default_np(&attributes_);
    pthread_attr_destroy(&attributes_);
  }

 private:
  pthread_attr_t attributes_{};
  rlimit limit_{};
};

TEST(ThreadPool, AThreadThatCannotStartIsAnErrorAndTheOthersStop) {
  const FewThreads few;
  const Error error = testing::fault([] { ThreadPool(8); });
  EXPECT_EQ(error.code(), Code::ThreadsExhausted);
  EXPECT_EQ(error.expected_text(), "8");
  EXPECT_EQ(error.found_text(), "3") << "the calling thread and two more";
}

}  // namespace
}  // namespace waybill
