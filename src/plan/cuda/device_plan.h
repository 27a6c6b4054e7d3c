// DevicePlan by the kernels of plan_kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/cuda/plan_tables.h"
#include "waybill/device_plan.h"
#include "waybill/tensor.h"

namespace waybill {

class CudaPlan : public DevicePlan {
 public:
  // Takes workspace_bytes() for up to `max_tokens` tokens. `tables` must outlive the plan.
  // InvalidValue when there are more experts or slots than a block's shared memory can count.
  CudaPlan(const DevicePlanTables& tables, std::int32_t max_tokens, Workspace& workspace);
  static std::size_t workspace_bytes(const DevicePlanTables& tables, std::int32_t max_tokens);

  Event build(const TensorView& experts, const Stream& stream,
              const TensorView& real_tokens) override;
  // The same without an event, for a caller that enqueues more behind it.
  void enqueue(const TensorView& experts, const Stream& stream, const TensorView& real_tokens);

  const PlanView& view() const override { return view_; }
  const PlacementVersion& placement() const override { return tables_.placement(); }
  void check(const Stream& stream) const override;
  HostPlan read_back(const Stream& stream) const override;
  std::vector<std::uint64_t> load(const Stream& stream) const override;
  // Whether its kernels run chained (base/cuda/chained_kernel.cuh). A kernel behind them that is
  // chained too reads the columns behind its wait.
  bool is_chained() const { return chained_; }

  // Where a combine of this plan reports a gate: check() is then GateNotFinite.
  std::int32_t* first_bad_gate() const { return &columns_.status->first_bad_gate; }

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
