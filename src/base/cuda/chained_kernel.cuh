// Kernels that begin while the kernel before them in the stream still runs (programmatic dependent
// launch). What such a kernel does before wait_for_earlier_kernels() overlaps that kernel's end.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "base/cuda/call.h"

namespace waybill {
namespace device {

// Returns once all earlier kernels of the stream have ended, and what they wrote can be read. Some
// thread of every block calls it, else the next kernel's wait would not cover those before.
__device__ inline void wait_for_earlier_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The next kernel begins once every block has called this or ended. Called behind the wait, it
// tells that kernel that all before this one have ended.
__device__ inline void let_next_kernel_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace device

// True when the kernel's machine code on the current device has these instructions.
template <class... Parameters>
bool can_chain(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  WAYBILL_CALL(cudaFuncGetAttributes(&attributes, kernel));
  return attributes.binaryVersion >= 90 && attributes.ptxVersion >= 90;
}

// Launches a kernel, which begins before the one before it has ended if `chained`; then it
// must be able to.
template <class... Parameters, class... Arguments>
void launch_kernel(bool chained, void (*kernel)(Parameters...), dim3 blocks, unsigned threads,
                   std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = chained ? 1 : 0;
  WAYBILL_CALL(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...));
}

}  // namespace waybill
