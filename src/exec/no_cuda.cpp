// Stands in for exec/cuda in a build without CUDA.
#include "waybill/device_layer.h"
#include "waybill/error.h"

namespace waybill {

std::unique_ptr<DeviceLayer> make_device_layer(const DeviceLayerOptions&, const SelectionTable&,
                                               const Placement&,
                                               std::shared_ptr<const DeviceExperts>) {
  throw Error(Code::DeviceUnavailable).note("built without CUDA");
}

}  // namespace waybill
