#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "waybill/device.h"

namespace waybill {
namespace {

TEST(Stream, InlineWorkHasRunWhenSubmitReturns) {
  const Stream stream = Stream::cpu_inline();
  bool ran = false;
  stream.submit([&] { ran = true; });
  EXPECT_TRUE(ran);
  EXPECT_TRUE(stream.record().ready());
}

TEST(Stream, WorkerRunsSubmissionsInOrder) {
  const Stream stream = Stream::cpu_worker();
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) stream.submit([&order, i] { order.push_back(i); });
  stream.synchronize();
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(Stream, EventIsNotReadyBeforeTheWorkAheadOfIt) {
  const Stream stream = Stream::cpu_worker();
  std::atomic<bool> go{false};
  stream.submit([&] {
    while (!go.load()) std::this_thread::yield();
  });
  const Event event = stream.record();
  EXPECT_FALSE(event.ready());
  go.store(true);
  event.wait();
  EXPECT_TRUE(event.ready());
}

TEST(Stream, AStreamWaitsForAnotherStreamsEvent) {
  const Stream first = Stream::cpu_worker(), second = Stream::cpu_worker();
  std::atomic<bool> go{false};
  int value = 0;
  first.submit([&] {
    while (!go.load()) std::this_thread::yield();
    value = 1;
  });
  second.wait(first.record());
  int seen = -1;
  second.submit([&] { seen = value; });
  go.store(true);
  second.synchronize();
  EXPECT_EQ(seen, 1);
}

TEST(Stream, FailedWorkStopsTheQueueAndReachesTheWaiter) {
  const Stream stream = Stream::cpu_worker();
  stream.submit([] { throw std::runtime_error("broken"); });
  bool ran = false;
  stream.submit([&] { ran = true; });
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace waybill
