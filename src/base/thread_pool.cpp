#include "waybill/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace waybill {

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable start, done;
  std::vector<std::thread> workers;
  const std::function<void(std::int32_t)>* body = nullptr;
  std::int32_t tasks = 0;
  std::atomic<std::int32_t> next{0};
  std::int32_t busy = 0;  // workers inside the current loop
  std::uint64_t loop = 0;
  bool stop = false;
  std::exception_ptr failure;

  void drain() {
    for (;;) {
      const std::int32_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= tasks) return;
      try {
        (*body)(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  }

  void work() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      start.wait(lock, [&] { return stop || loop != seen; });
      if (stop) return;
      seen = loop;
      lock.unlock();
      drain();
      lock.lock();
      if (--busy == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(std::int32_t threads) : state_(std::make_unique<State>()) {
  for (std::int32_t i = 1; i < std::max(threads, 1); ++i) {
    state_->workers.emplace_back([state = state_.get()] { state->work(); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->start.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

std::int32_t ThreadPool::threads() const {
  return static_cast<std::int32_t>(state_->workers.size()) + 1;
}

void ThreadPool::run(std::int32_t tasks, const std::function<void(std::int32_t)>& body) {
  State& s = *state_;
  {
    std::lock_guard lock(s.mutex);
    s.body = &body;
    s.tasks = tasks;
    s.next.store(0, std::memory_order_relaxed);
    s.failure = nullptr;
    s.busy = static_cast<std::int32_t>(s.workers.size());
    ++s.loop;
  }
  s.start.notify_all();
  s.drain();
  std::unique_lock lock(s.mutex);
  s.done.wait(lock, [&] { return s.busy == 0; });
  if (s.failure) std::rethrow_exception(s.failure);
}

}  // namespace waybill
