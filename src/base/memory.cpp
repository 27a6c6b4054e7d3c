#include "base/memory.h"

#include <new>

#include "base/device_backend.h"
#include "waybill/tensor.h"

namespace waybill {

void* reserve_memory(Device device, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (device.kind == DeviceKind::cuda) return cuda_backend().reserve(device, bytes);
  return ::operator new (bytes, std::align_val_t{Workspace::alignment});
}

void release_memory(Device device, void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  if (device.kind == DeviceKind::cuda) return cuda_backend().release(device, block);
  ::operator delete (block, bytes, std::align_val_t{Workspace::alignment});
}

}  // namespace waybill
