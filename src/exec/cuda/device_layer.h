// DeviceLayer: the plan, the two grouped products and the combine on one stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "expert/cuda/device_experts.h"
#include "plan/cuda/device_plan.h"
#include "waybill/device_layer.h"

namespace waybill {

// What computes the two products. Every one gives the same bits.
enum class ProductKernel : std::uint8_t { chosen, portable, hopper_narrow, hopper_wide };

class CudaLayer final : public DeviceLayer {
 public:
  // What make_device_layer() throws. `kernel`: `chosen` is the fastest for a step's size; one that
  // can't run here is replaced by `portable`.
  CudaLayer(const DeviceLayerOptions& options, DevicePlanTables tables,
            std::shared_ptr<const CudaExperts> experts,
            ProductKernel kernel = ProductKernel::chosen);

  Event forward(const DeviceStep& step, const Stream& stream) override;
  Event forward(const DeviceStep& step, const Stream& stream, Lease lease) override;
  std::unique_ptr<CapturedStep> capture(const DeviceStep& step, const Stream& stream,
                                        Lease lease) override;
  void check(const Stream& stream) const override;
  const CudaPlan& plan() const override { return plan_; }
  std::size_t workspace_bytes() const override { return workspace_.capacity(); }

  const DevicePlanTables& tables() const { return tables_; }
  // Checks the step and enqueues its kernels.
  void enqueue(const DeviceStep& step, const Stream& stream);

 private:
  void check_step(const DeviceStep& step) const;
  ProductKernel kernel_for(const DeviceStep& step) const;
  void multiply(const DeviceStep& step, cudaStream_t stream) const;

  DeviceLayerOptions options_;
  ProductKernel kernel_;
  DevicePlanTables tables_;
  std::shared_ptr<const CudaExperts> experts_;
  Workspace workspace_;
  CudaPlan plan_;
  bool hopper_;  // its kernels run here
  std::int32_t multiprocessors_;
  std::int64_t inner_stride_;
  __nv_bfloat16* inner_;   // [rows, inner_stride_] activated rows
  void* rows_;             // [rows, d] expert rows in send order
  std::uint32_t* claims_;  // [2] tiles that each product's blocks have claimed
  std::optional<RowMaps> inner_maps_, gathered_maps_;  // of inner_ and of input rows in rows_
};

}  // namespace waybill
