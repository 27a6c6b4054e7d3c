// Blocks of memory on a device. The CUDA build links another implementation of the device half.
#pragma once

#include <cstddef>

#include "waybill/device.h"

namespace waybill {

// 256-byte aligned, uninitialised; null for 0 bytes. DeviceUnavailable when the device isn't built
// in, std::bad_alloc or DeviceFault when memory is short.
void* reserve_memory(Device device, std::size_t bytes);
// Gives a block of `bytes` back; null is allowed.
void release_memory(Device device, void* block, std::size_t bytes) noexcept;

}  // namespace waybill
