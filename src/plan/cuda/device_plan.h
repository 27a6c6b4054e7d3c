// The dispatch plan of one rank, made on the device from routes that are there: the same columns as
// HostPlan, no host synchronisation, safe to capture. Bad ids and routes without a replica count as
// dropped and set a status word that the host reads when it chooses to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/cuda/plan_tables.h"
#include "waybill/device.h"
#include "waybill/plan.h"
#include "waybill/tensor.h"

namespace waybill {

class DevicePlan {
 public:
  // Takes workspace_bytes() for up to `max_tokens` tokens. `tables` must outlive the plan.
  // InvalidValue when there are more experts or slots than a block's shared memory can count.
  DevicePlan(const DevicePlanTables& tables, std::int32_t max_tokens, Workspace& workspace);
  static std::size_t workspace_bytes(const DevicePlanTables& tables, std::int32_t max_tokens);

  // Enqueues one or two kernels; the event has happened once they have run (base/cuda/stream.h:
  // completion). `experts` [tokens * k] on the device, logical ids or dropped_route, read when the
  // kernels run. `real_tokens`, when given, points to a count on the device: tokens from there on
  // are padding and count as dropped. WorkspaceTooSmall when there are more tokens than reserved
  // for.
  Event build(std::int32_t tokens, const std::int32_t* experts, const Stream& stream,
              const std::int32_t* real_tokens = nullptr);
  // The same without an event, for a caller that enqueues more behind it.
  void enqueue(std::int32_t tokens, const std::int32_t* experts, const Stream& stream,
               const std::int32_t* real_tokens = nullptr);

  // Device pointers; `rows` is the upper bound T*k. Valid after build(), in stream order.
  const PlanView& view() const { return view_; }
  // The placement whose slots the plan names.
  const PlacementVersion& placement() const { return tables_.placement(); }
  // Whether its kernels run chained (base/cuda/chained_kernel.cuh). A kernel behind them that is
  // chained too reads the columns behind its wait.
  bool is_chained() const { return chained_; }

  // Waits for the stream and throws what the last plan on it found: ExpertIdOutOfRange (with the
  // first bad token, route slot and id) or ReplicaCardinalityZero.
  void check(const Stream& stream) const;
  // The last plan on the stream in host memory: equal to what build_plan makes of the same routes.
  // Waits for the stream; throws what check() throws.
  HostPlan read_back(const Stream& stream) const;
  // Accepted routes of each expert over all steps so far, [E]. Waits for the stream.
  std::vector<std::uint64_t> load(const Stream& stream) const;

 private:
  const DevicePlanTables& tables_;
  std::int32_t max_tokens_, multiprocessors_;
  std::size_t shared_limit_;
  bool chained_ = false;
  plan_device::Output columns_{};
  plan_device::Scratch scratch_{};
  PlanView view_{};
};

}  // namespace waybill
