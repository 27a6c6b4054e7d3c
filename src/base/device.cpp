#include "waybill/device.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/device_backend.h"
#include "base/stream_state.h"

namespace waybill {
namespace {

class InlineStream final : public Stream::State {
 public:
  Device device() const override { return {}; }
  void submit(std::function<void()> work) override { work(); }
  Event record() override { return {}; }
  void wait(const Event& event) override { event.wait(); }
  void synchronize() override {}
  void* native() const override { return nullptr; }
};

// A point that a worker passes, with the first exception of the work before it.
class WorkerEvent final : public Event::State {
 public:
  void pass(std::exception_ptr failure) {
    {
      std::lock_guard lock(mutex_);
      passed_ = true;
      failure_ = std::move(failure);
    }
    changed_.notify_all();
  }
  bool ready() override {
    std::lock_guard lock(mutex_);
    return passed_;
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return passed_; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool passed_ = false;
  std::exception_ptr failure_;
};

class WorkerStream final : public Stream::State {
 public:
  WorkerStream() : worker_([this] { loop(); }) {}
  ~WorkerStream() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  Device device() const override { return {}; }
  void submit(std::function<void()> work) override {
    push([this, work = std::move(work)] {
      if (failure_) return;  // work after a failure doesn't run
      try {
        work();
      } catch (...) {
        failure_ = std::current_exception();
      }
    });
  }
  Event record() override {
    auto point = std::make_shared<WorkerEvent>();
    push([this, point] { point->pass(failure_); });
    return Event(point);
  }
  void wait(const Event& event) override {
    submit([event] { event.wait(); });
  }
  void synchronize() override { record().wait(); }
  void* native() const override { return nullptr; }

 private:
  void push(std::function<void()> item) {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(item));
    }
    changed_.notify_one();
  }
  void loop() {
    for (;;) {
      std::function<void()> item;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (queue_.empty()) return;
        item = std::move(queue_.front());
        queue_.pop_front();
      }
      item();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stop_ = false;
  std::exception_ptr failure_;  // of the worker thread alone
  std::thread worker_;
};

}  // namespace

std::string name(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

std::int32_t device_count(DeviceKind kind) {
  return kind == DeviceKind::cpu ? 1 : cuda_backend().devices();
}

bool Event::ready() const { return state_ == nullptr || state_->ready(); }
void Event::wait() const {
  if (state_ != nullptr) state_->wait();
}

Stream Stream::cpu_inline() { return Stream(std::make_shared<InlineStream>()); }
Stream Stream::cpu_worker() { return Stream(std::make_shared<WorkerStream>()); }

Stream Stream::on(Device device) {
  return device.kind == DeviceKind::cpu ? cpu_worker() : cuda_backend().make_stream(device);
}
Stream Stream::borrow(Device device, void* native) {
  return cuda_backend().borrow_stream(device, native);
}

Device Stream::device() const { return state_->device(); }
void Stream::submit(std::function<void()> work) const { state_->submit(std::move(work)); }
Event Stream::record() const { return state_->record(); }
void Stream::wait(const Event& event) const { state_->wait(event); }
void Stream::synchronize() const { state_->synchronize(); }
void* Stream::native() const { return state_->native(); }

}  // namespace waybill
