// Stands in for base/cuda in a build without CUDA.
#include "base/device_backend.h"
#include "waybill/error.h"

namespace waybill {
namespace {

class NoCuda final : public DeviceBackend {
 public:
  int devices() const override { return 0; }
  void* reserve(Device device, std::size_t) override { throw refused(device); }
  void release(Device, void*) noexcept override {}
  Stream make_stream(Device device) override { throw refused(device); }
  Stream borrow_stream(Device device, void*) override { throw refused(device); }

 private:
  static Error refused(Device device) {
    return Error(Code::DeviceUnavailable).at("device", device).note("built without CUDA");
  }
};

}  // namespace

DeviceBackend& cuda_backend() {
  static NoCuda backend;
  return backend;
}

}  // namespace waybill
