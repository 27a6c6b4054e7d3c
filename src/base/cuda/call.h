// Calls of the CUDA runtime, whose failures become typed errors, and the thread's current device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "waybill/device.h"

namespace waybill {

// DeviceUnavailable when there is no such device or driver, otherwise DeviceFault, with the call's
// name and CUDA's text; returns when `status` is success.
void check_call(cudaError_t status, const char* call);

// Makes a device current on this thread for the scope's life. DeviceUnavailable when there is none.
class DeviceScope {
 public:
  explicit DeviceScope(Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int previous_ = 0;
};

inline cudaStream_t cuda_stream(const Stream& stream) {
  return static_cast<cudaStream_t>(stream.native());
}

// A limit of the device, e.g. cudaDevAttrMaxSharedMemoryPerBlockOptin.
std::int32_t device_limit(Device device, cudaDeviceAttr attribute);

}  // namespace waybill

#define WAYBILL_CALL(expression) ::waybill::check_call((expression), #expression)
