// The dispatch plan of one rank, made on a device without host synchronisation. It exists where a
// device of kind cuda can be used; DeviceUnavailable elsewhere.
// Source: reference text 0x03B; docs/decisions/0003.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "waybill/device.h"
#include "waybill/placement.h"
#include "waybill/plan.h"
#include "waybill/selection.h"
#include "waybill/tensor.h"
#include "waybill/topology.h"

namespace waybill {

// A dispatch plan made on the device from routes that are there: the columns of HostPlan, safe to
// capture. Bad ids and routes without a replica count as dropped and set the status word, which the
// host reads when it chooses to.
class DevicePlan {
 public:
  virtual ~DevicePlan() = default;
  // Enqueues one or two kernels; the event has happened once they have run. `experts` [T, k] i32 on
  // the device, logical ids or dropped_route, contiguous, read when the kernels run. `real_tokens`
  // [1] i32 on the device, or no tensor: tokens from there on are padding and count as dropped.
  // ShapeMismatch, DtypeMismatch, DeviceUnavailable (a tensor of another device), WorkspaceTooSmall
  // (more tokens than reserved for).
  virtual Event build(const TensorView& experts, const Stream& stream,
                      const TensorView& real_tokens = {}) = 0;
  // Device pointers; `rows` is the upper bound T*k. Valid after build(), in stream order.
  virtual const PlanView& view() const = 0;
  // The placement whose slots the plan names.
  virtual const PlacementVersion& placement() const = 0;
  // Waits for the stream and throws what the last plan on it found: ExpertIdOutOfRange (with the
  // first bad token, route slot and id) or ReplicaCardinalityZero.
  virtual void check(const Stream& stream) const = 0;
  // The last plan on the stream in host memory: equal to what build_plan makes of the same routes.
  // Waits for the stream; throws what check() throws.
  virtual HostPlan read_back(const Stream& stream) const = 0;
  // Accepted routes of each expert over all steps so far, [E]. Waits for the stream.
  virtual std::vector<std::uint64_t> load(const Stream& stream) const = 0;
};

// Reserves device memory for up to `max_tokens` tokens. RankOutsideGroup (a slot's rank is no
// member), SlotOutsideReplicaSet (the table names a slot of another expert), DuplicateSlotId (it
// names a slot twice), InvalidValue (its columns don't fit together, or more experts or slots than
// a block's shared memory can count) and, under the hashed rule, ReplicaCardinalityZero (an expert
// without a candidate).
std::unique_ptr<DevicePlan> make_device_plan(const SelectionTable& table,
                                             const Placement& placement, const ProcessGroup& group,
                                             Rank source, std::int32_t topk,
                                             std::int32_t max_tokens, Device device);

}  // namespace waybill
