// CUDA streams and events behind Stream and Event.
#pragma once

#include <cuda_runtime_api.h>

#include "waybill/device.h"

namespace waybill {

// A new non-blocking stream on `device`.
Stream make_cuda_stream(Device device);
// The owner's stream, used in place.
Stream borrow_cuda_stream(Device device, cudaStream_t native);

bool is_captured(const Stream& stream);
// The point at which what a call has just enqueued on `stream` has run. A captured call enqueues
// nothing, so that its event has happened; each replay has an event of its own.
Event completion(const Stream& stream);

}  // namespace waybill
