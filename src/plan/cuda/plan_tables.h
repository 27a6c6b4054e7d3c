// A selection table with its placement and peer order, in device memory: everything a device plan
// reads besides the routes. Made once per placement and table, not per step.
#pragma once

#include <cstdint>

#include "base/cuda/device_array.h"
#include "plan/cuda/plan_kernels.h"
#include "waybill/placement.h"
#include "waybill/selection.h"
#include "waybill/topology.h"

namespace waybill {

class DevicePlanTables {
 public:
  // Blocks until the copies are made. Throws RankOutsideGroup (a slot's rank is no member),
  // SlotOutsideReplicaSet (the table names a slot of another expert), DuplicateSlotId (it names a
  // slot twice), InvalidValue (its columns don't fit together) and, under the hashed rule,
  // ReplicaCardinalityZero (an expert without a candidate).
  DevicePlanTables(const SelectionTable& table, const Placement& placement,
                   const ProcessGroup& group, Rank source, std::int32_t topk, Device device);

  const plan_device::Tables& view() const { return view_; }
  Device device() const { return device_; }
  const PlacementVersion& placement() const { return placement_; }

 private:
  Device device_;
  PlacementVersion placement_;
  plan_device::Tables view_{};
  DeviceArray<std::int32_t> columns_;
};

}  // namespace waybill
