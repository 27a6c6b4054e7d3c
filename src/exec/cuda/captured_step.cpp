#include <utility>

#include "base/cuda/call.h"
#include "exec/cuda/device_layer.h"

namespace waybill {
namespace {

class CudaCapturedStep final : public CapturedStep {
 public:
  CudaCapturedStep(CudaLayer& layer, const DeviceStep& step, const Stream& stream, Lease&& lease)
      : device_(stream.device()), lease_(std::move(lease)) {
    const DeviceScope scope(device_);
    cudaStream_t native = cuda_stream(stream);
    WAYBILL_CALL(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph = nullptr;
    try {
      layer.enqueue(step, stream);
    } catch (...) {
      static_cast<void>(cudaStreamEndCapture(native, &graph));
      static_cast<void>(cudaGraphDestroy(graph));
      throw;
    }
    WAYBILL_CALL(cudaStreamEndCapture(native, &graph));
    const cudaError_t made = cudaGraphInstantiate(&graph_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    check_call(made, "cudaGraphInstantiate");
  }
  ~CudaCapturedStep() override {
    if (lease_) lease_.release_after(last_replay_);
    if (graph_ != nullptr) static_cast<void>(cudaGraphExecDestroy(graph_));
  }
  CudaCapturedStep(const CudaCapturedStep&) = delete;
  CudaCapturedStep& operator=(const CudaCapturedStep&) = delete;

  Event replay(const Stream& stream) override {
    const DeviceScope scope(device_);
    WAYBILL_CALL(cudaGraphLaunch(graph_, cuda_stream(stream)));
    last_replay_ = stream.record();
    return last_replay_;
  }

 private:
  Device device_;
  cudaGraphExec_t graph_ = nullptr;
  Lease lease_;
  Event last_replay_;
};

}  // namespace

std::unique_ptr<CapturedStep> CudaLayer::capture(const DeviceStep& step, const Stream& stream,
                                                 Lease lease) {
  if (lease) lease.require(plan_.placement());
  return std::make_unique<CudaCapturedStep>(*this, step, stream, std::move(lease));
}

}  // namespace waybill
