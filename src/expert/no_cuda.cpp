// Stands in for expert/cuda in a build without CUDA.
#include "waybill/device_experts.h"
#include "waybill/error.h"

namespace waybill {
namespace {

Error without_cuda(Device device) {
  return Error(Code::DeviceUnavailable).at("device", device).note("built without CUDA");
}

}  // namespace

std::shared_ptr<const DeviceExperts> copy_experts(std::span<const ExpertWeights* const>,
                                                  Device device) {
  throw without_cuda(device);
}
std::shared_ptr<const DeviceExperts> borrow_experts(std::span<const ExpertWeights>, Device device) {
  throw without_cuda(device);
}

}  // namespace waybill
