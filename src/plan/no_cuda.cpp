// Stands in for plan/cuda in a build without CUDA.
#include "waybill/device_plan.h"
#include "waybill/error.h"

namespace waybill {

std::unique_ptr<DevicePlan> make_device_plan(const SelectionTable&, const Placement&,
                                             const ProcessGroup&, Rank, std::int32_t, std::int32_t,
                                             Device device) {
  throw Error(Code::DeviceUnavailable).at("device", device).note("built without CUDA");
}

}  // namespace waybill
