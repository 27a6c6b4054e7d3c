// A fixed set of worker threads for data-parallel loops. Sleeps when idle.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace waybill {

class ThreadPool {
 public:
  // `threads` counts the calling thread, so threads - 1 workers are started; at least 1.
  // ThreadsExhausted when one of them can't be started.
  explicit ThreadPool(std::int32_t threads);
  ~ThreadPool();

  std::int32_t threads() const;
  // Runs body(i) for i in [0, tasks), each exactly once; returns when all are done, rethrowing the
  // first exception. One loop at a time per pool. The threads share the tasks out by number, alike
  // in every loop of as many tasks; one that is done takes over from one that is late.
  void run(std::int32_t tasks, const std::function<void(std::int32_t)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace waybill
