#include "base/cuda/stream.h"

#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "base/cuda/call.h"
#include "base/stream_state.h"
#include "waybill/error.h"

namespace waybill {
namespace {

// The first exception of a stream's host work; events recorded later rethrow it.
class HostFailure {
 public:
  void set(std::exception_ptr failure) {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
  }
  std::exception_ptr get() {
    std::lock_guard lock(mutex_);
    return failure_;
  }
  void rethrow() {
    if (std::exception_ptr failure = get()) std::rethrow_exception(failure);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

class CudaEvent final : public Event::State {
 public:
  CudaEvent(cudaStream_t stream, std::shared_ptr<HostFailure> failure)
      : failure_(std::move(failure)) {
    WAYBILL_CALL(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    const cudaError_t recorded = cudaEventRecord(event_, stream);
    if (recorded != cudaSuccess) {
      static_cast<void>(cudaEventDestroy(event_));
      check_call(recorded, "cudaEventRecord");
    }
  }
  ~CudaEvent() override { static_cast<void>(cudaEventDestroy(event_)); }

  bool ready() override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    check_call(status, "cudaEventQuery");
    return true;
  }
  void wait() override {
    WAYBILL_CALL(cudaEventSynchronize(event_));
    failure_->rethrow();
  }
  cudaEvent_t native() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
  std::shared_ptr<HostFailure> failure_;
};

bool is_captured_now(cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  WAYBILL_CALL(cudaStreamIsCapturing(stream, &capture));
  return capture != cudaStreamCaptureStatusNone;
}

struct HostWork {
  std::function<void()> run;
  std::shared_ptr<HostFailure> failure;
};

void CUDART_CB run_host_work(void* data) {
  const std::unique_ptr<HostWork> work(static_cast<HostWork*>(data));
  if (work->failure->get()) return;  // work after a failure doesn't run
  try {
    work->run();
  } catch (...) {
    work->failure->set(std::current_exception());
  }
}

class CudaStream final : public Stream::State {
 public:
  explicit CudaStream(Device device) : device_(device), owned_(true) {
    const DeviceScope scope(device);
    WAYBILL_CALL(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  CudaStream(Device device, cudaStream_t native) : device_(device), stream_(native) {}
  ~CudaStream() override {
    if (owned_) static_cast<void>(cudaStreamDestroy(stream_));
  }

  Device device() const override { return device_; }

  void submit(std::function<void()> work) override {
    const DeviceScope scope(device_);
    if (is_captured_now(stream_)) {
      throw Error(Code::GraphCaptureNotSupported)
          .at("device", device_)
          .note("host work runs once, a captured graph many times");
    }
    auto item = std::make_unique<HostWork>(HostWork{std::move(work), failure_});
    WAYBILL_CALL(cudaLaunchHostFunc(stream_, run_host_work, item.get()));
    static_cast<void>(item.release());  // run_host_work owns it now
  }

  Event record() override {
    const DeviceScope scope(device_);
    return Event(std::make_shared<CudaEvent>(stream_, failure_));
  }

  void wait(const Event& event) override {
    if (event.state() == nullptr) return;
    if (const auto* point = dynamic_cast<const CudaEvent*>(event.state().get())) {
      const DeviceScope scope(device_);
      WAYBILL_CALL(cudaStreamWaitEvent(stream_, point->native(), 0));
    } else {
      submit([event] { event.wait(); });
    }
  }

  void synchronize() override {
    WAYBILL_CALL(cudaStreamSynchronize(stream_));
    failure_->rethrow();
  }

  void* native() const override { return stream_; }

 private:
  Device device_;
  cudaStream_t stream_ = nullptr;
  bool owned_ = false;
  std::shared_ptr<HostFailure> failure_ = std::make_shared<HostFailure>();
};

}  // namespace

Stream make_cuda_stream(Device device) { return Stream(std::make_shared<CudaStream>(device)); }

Stream borrow_cuda_stream(Device device, cudaStream_t native) {
  return Stream(std::make_shared<CudaStream>(device, native));
}

bool is_captured(const Stream& stream) { return is_captured_now(cuda_stream(stream)); }

Event completion(const Stream& stream) { return is_captured(stream) ? Event() : stream.record(); }

}  // namespace waybill
