#include "base/cuda/call.h"
#include "base/cuda/stream.h"
#include "base/device_backend.h"

namespace waybill {
namespace {

class CudaBackend final : public DeviceBackend {
 public:
  int devices() const override {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    static_cast<void>(cudaGetLastError());  // no driver or no GPU: none can be used
    return 0;
  }
  void* reserve(Device device, std::size_t bytes) override {
    const DeviceScope scope(device);
    void* block = nullptr;
    WAYBILL_CALL(cudaMalloc(&block, bytes));
    return block;
  }
  void release(Device, void* block) noexcept override { static_cast<void>(cudaFree(block)); }
  Stream make_stream(Device device) override { return make_cuda_stream(device); }
  Stream borrow_stream(Device device, void* native) override {
    return borrow_cuda_stream(device, static_cast<cudaStream_t>(native));
  }
};

}  // namespace

DeviceBackend& cuda_backend() {
  static CudaBackend backend;
  return backend;
}

}  // namespace waybill
