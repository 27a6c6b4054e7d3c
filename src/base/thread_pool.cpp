#include "waybill/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "waybill/error.h"

namespace waybill {

struct ThreadPool::State {
  // Tasks [next, end) of one thread, on a cache line of their own.
  struct alignas(64) Share {
    std::atomic<std::int32_t> next{0};
    std::int32_t end = 0;
  };

  std::mutex mutex;
  std::condition_variable start, done;
  std::vector<std::thread> workers;
  const std::function<void(std::int32_t)>* body = nullptr;
  std::vector<Share> shares;  // one a thread
  std::int32_t busy = 0;      // workers inside the current loop
  std::uint64_t loop = 0;
  bool stop = false;
  std::exception_ptr failure;

  ~State() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    start.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  // Own tasks first: in loop after loop, the same thread then finds its data in its caches.
  void drain(std::size_t self) {
    for (std::size_t i = 0; i < shares.size(); ++i) finish(shares[(self + i) % shares.size()]);
  }

  void finish(Share& share) {
    for (;;) {
      const std::int32_t i = share.next.fetch_add(1, std::memory_order_relaxed);
      if (i >= share.end) return;
      try {
        (*body)(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  }

  void work(std::size_t self) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      start.wait(lock, [&] { return stop || loop != seen; });
      if (stop) return;
      seen = loop;
      lock.unlock();
      drain(self);
      lock.lock();
      if (--busy == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(std::int32_t threads) : state_(std::make_unique<State>()) {
  const auto count = static_cast<std::size_t>(std::max(threads, 1));
  state_->shares = std::vector<State::Share>(count);
  state_->workers.reserve(count - 1);
  try {
    for (std::size_t self = 1; self < count; ++self) {
      state_->workers.emplace_back([state = state_.get(), self] { state->work(self); });
    }
  } catch (const std::system_error& error) {
    throw Error(Code::ThreadsExhausted)
        .expected(count)
        .found(state_->workers.size() + 1)
        .note(error.what());
  }
}

ThreadPool::~ThreadPool() = default;

std::int32_t ThreadPool::threads() const {
  return static_cast<std::int32_t>(state_->workers.size()) + 1;
}

void ThreadPool::run(std::int32_t tasks, const std::function<void(std::int32_t)>& body) {
  State& s = *state_;
  {
    std::lock_guard lock(s.mutex);
    s.body = &body;
    const auto count = static_cast<std::int64_t>(s.shares.size());
    for (std::int64_t i = 0; i < count; ++i) {
      s.shares[i].next.store(static_cast<std::int32_t>(tasks * i / count),
                             std::memory_order_relaxed);
      s.shares[i].end = static_cast<std::int32_t>(tasks * (i + 1) / count);
    }
    s.failure = nullptr;
    s.busy = static_cast<std::int32_t>(s.workers.size());
    ++s.loop;
  }
  s.start.notify_all();
  s.drain(0);
  std::unique_lock lock(s.mutex);
  s.done.wait(lock, [&] { return s.busy == 0; });
  if (s.failure) std::rethrow_exception(s.failure);
}

}  // namespace waybill
