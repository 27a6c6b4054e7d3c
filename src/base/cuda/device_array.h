// A typed block of one device's memory that its holder owns.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/cuda/call.h"
#include "base/memory.h"

namespace waybill {

template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  // Uninitialised.
  DeviceArray(Device device, std::size_t size)
      : device_(device),
        data_(static_cast<T*>(reserve_memory(device, size * sizeof(T)))),
        size_(size) {}
  // A copy of `host`; returns when the copy is made.
  DeviceArray(Device device, std::span<const T> host) : DeviceArray(device, host.size()) {
    upload(host);
  }
  DeviceArray(DeviceArray&& other) noexcept
      : device_(other.device_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceArray() { release_memory(device_, data_, size_ * sizeof(T)); }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }

  // Both block the calling thread; host.size() <= size().
  void upload(std::span<const T> host) {
    if (host.empty()) return;
    const DeviceScope scope(device_);
    WAYBILL_CALL(cudaMemcpy(data_, host.data(), host.size_bytes(), cudaMemcpyHostToDevice));
    // The copy of pageable memory may return before the last piece is there.
    WAYBILL_CALL(cudaStreamSynchronize(cudaStreamLegacy));
  }
  std::vector<T> download() const {
    std::vector<T> host(size_);
    if (size_ == 0) return host;
    const DeviceScope scope(device_);
    WAYBILL_CALL(cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  Device device_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace waybill
