// The hook by which the CUDA part of base/ joins in. Without it every call throws
// DeviceUnavailable.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "waybill/device.h"

namespace waybill {

class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  virtual int devices() const = 0;  // usable now; 0 on a machine without a GPU
  virtual void* reserve(Device device, std::size_t bytes) = 0;
  virtual void release(Device device, void* block) noexcept = 0;
  virtual Stream make_stream(Device device) = 0;
  virtual Stream borrow_stream(Device device, void* native) = 0;
};

// src/base/cuda/backend.cpp when CUDA is built, src/base/no_cuda.cpp otherwise.
DeviceBackend& cuda_backend();

}  // namespace waybill
