// One MoE layer of one rank that owns every slot, on a device: plan, the two grouped products and
// the combine, four to six kernels without host synchronisation or allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "expert/cuda/device_experts.h"
#include "plan/cuda/device_plan.h"
#include "waybill/device.h"
#include "waybill/expert.h"
#include "waybill/registry.h"
#include "waybill/tensor.h"

namespace waybill {

// What computes the two products. Every one gives the same bits.
enum class ProductKernel : std::uint8_t { chosen, portable, hopper_narrow, hopper_wide };

struct DeviceLayerOptions {
  std::int32_t max_tokens = 0;
  Activation activation{};
  DType return_dtype = DType::bf16;  // expert rows are rounded to it: bf16 or f32
  // `chosen` is the fastest for a step's size. One that can't run here is replaced by `portable`.
  ProductKernel kernel = ProductKernel::chosen;
};

// What a step reads and writes; everything in the layer's device memory.
struct DeviceStep {
  std::int32_t tokens = 0;
  const std::int32_t* experts = nullptr;  // [T, k] logical ids or dropped_route
  const float* gates = nullptr;           // [T, k]
  const std::int32_t* real_tokens =
      nullptr;                    // tokens from *real_tokens on are padding; may be null
  TensorView hidden;              // [T, d] bf16, rows 16-byte aligned
  TensorView output;              // [T, d] bf16 or f32, contiguous
  const float* shared = nullptr;  // [T, d] rows of the shared expert, added last; may be null
};

// Not thread-safe; one stream of steps.
class DeviceLayer {
 public:
  // `tables` and `experts` must outlive the layer; slots of `experts` stand in send key order,
  // which on one rank is local slot order. DescriptorSlotMismatch when their numbers differ,
  // InvalidValue when the hidden size isn't a multiple of 8.
  DeviceLayer(const DeviceLayerOptions& options, const DevicePlanTables& tables,
              const DeviceExperts& experts);

  // Device memory that the layer reserves; what a layer with these arguments would.
  static std::size_t workspace_bytes(const DeviceLayerOptions& options,
                                     const DevicePlanTables& tables, const DeviceExperts& experts);

  // Enqueues a step; the event has happened once it has run. May be captured into a graph, which
  // then reads the same addresses at each replay; a captured step enqueues nothing, so that its
  // event has happened. The output of a step whose plan fails is 0. ShapeMismatch, DtypeMismatch,
  // WorkspaceTooSmall.
  Event forward(const DeviceStep& step, const Stream& stream);
  // The same under a lease, whose generation can't retire before the event. GenerationMismatch when
  // the layer's tables are of another placement; GraphCaptureNotSupported while the stream is
  // captured: CapturedStep holds the lease of a step that is replayed.
  Event forward(const DeviceStep& step, const Stream& stream, Lease lease);
  // Waits for the stream and throws what the last step's plan found (DevicePlan::check): its output
  // is invalid then. Later steps are not affected.
  void check(const Stream& stream) const { plan_.check(stream); }

  const DevicePlan& plan() const { return plan_; }

 private:
  friend class CapturedStep;
  void check_step(const DeviceStep& step) const;
  void enqueue(const DeviceStep& step, const Stream& stream);
  ProductKernel kernel_for(const DeviceStep& step) const;
  void multiply(const DeviceStep& step, cudaStream_t stream) const;

  DeviceLayerOptions options_;
  const DeviceExperts& experts_;
  Workspace workspace_;
  DevicePlan plan_;
  bool hopper_;  // its kernels run here
  std::int32_t multiprocessors_;
  std::int64_t inner_stride_;
  __nv_bfloat16* inner_;   // [rows, inner_stride_] activated rows
  void* rows_;             // [rows, d] expert rows in send order
  std::uint32_t* claims_;  // [2] tiles that each product's blocks have claimed
  std::optional<RowMaps> inner_maps_, gathered_maps_;  // of inner_ and of input rows in rows_
};

// A step of a layer captured once and replayed with whatever the step's memory holds then.
class CapturedStep {
 public:
  // Captures on `stream`, which must have nothing else going on. The layer must outlive it. A lease
  // is held until the last replay has run: the graph reads its generation's tables.
  // GenerationMismatch when the layer's tables are of another placement.
  CapturedStep(DeviceLayer& layer, const DeviceStep& step, const Stream& stream, Lease lease = {});
  ~CapturedStep();
  CapturedStep(CapturedStep&&) noexcept;
  CapturedStep& operator=(CapturedStep&&) noexcept;

  // The event has happened once this replay has run. Replays come one after another, also where
  // they are on several streams.
  Event replay(const Stream& stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace waybill
