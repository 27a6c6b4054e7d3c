#include "base/cuda/call.h"

#include <string_view>

#include "waybill/error.h"

namespace waybill {
namespace {

bool means_unavailable(cudaError_t status) {
  return status == cudaErrorNoDevice || status == cudaErrorInvalidDevice ||
         status == cudaErrorInsufficientDriver || status == cudaErrorDevicesUnavailable;
}

}  // namespace

void check_call(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // the error is reported here and by no later call
  std::string_view name = call;
  name = name.substr(0, name.find('('));
  throw Error(means_unavailable(status) ? Code::DeviceUnavailable : Code::DeviceFault)
      .at("call", name)
      .found(cudaGetErrorName(status))
      .note(cudaGetErrorString(status));
}

DeviceScope::DeviceScope(Device device) {
  try {
    WAYBILL_CALL(cudaGetDevice(&previous_));
    WAYBILL_CALL(cudaSetDevice(device.index));
  } catch (Error& error) {
    error.at("device", device);
    throw;
  }
}

DeviceScope::~DeviceScope() { static_cast<void>(cudaSetDevice(previous_)); }

std::int32_t device_limit(Device device, cudaDeviceAttr attribute) {
  int value = 0;
  WAYBILL_CALL(cudaDeviceGetAttribute(&value, attribute, device.index));
  return value;
}

}  // namespace waybill
