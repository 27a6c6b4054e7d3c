// A MoE layer on one GPU whose rank owns every slot: routes and hidden rows in, combined rows out,
// four to six kernels without host synchronisation or allocation, alone or as a captured graph.
// The objects exist where a device of kind cuda can be used; DeviceUnavailable elsewhere.
//   auto experts = borrow_experts(slots, gpu);  // an engine's own weights, in place
//   auto layer = make_device_layer({.max_tokens = 512, .topk = 8}, selection, placement, experts);
//   auto step = layer->capture({.experts = ids, .gates = gates, .hidden = x, .output = y}, stream);
//   step->replay(stream);
//   layer->check(stream);  // waits; throws what the step's routes did wrong
// Source: reference text 0x03B, 0x04C; docs/decisions/0003.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "waybill/device.h"
#include "waybill/device_experts.h"
#include "waybill/device_plan.h"
#include "waybill/expert.h"
#include "waybill/placement.h"
#include "waybill/registry.h"
#include "waybill/selection.h"
#include "waybill/tensor.h"

namespace waybill {

struct DeviceLayerOptions {
  std::int32_t max_tokens = 0;
  std::int32_t topk = 0;
  Activation activation{};
  DType return_dtype = DType::bf16;  // expert rows are rounded to it: bf16 or f32
};

// What a step reads and writes, everything in memory of the layer's device and contiguous; rows of
// `hidden` may lie further apart. No tensor: data == nullptr.
struct DeviceStep {
  TensorView experts;        // [T, k] i32 logical ids or dropped_route
  TensorView gates;          // [T, k] f32
  TensorView hidden;         // [T, d] bf16, rows 16-byte aligned
  TensorView output;         // [T, d] bf16 or f32, 16-byte aligned
  TensorView shared{};       // [T, d] f32 rows of the shared expert, added last; or none
  TensorView real_tokens{};  // [1] i32: tokens from there on are padding; or none
};

// A step of a layer captured once and replayed with whatever the step's memory holds then.
class CapturedStep {
 public:
  virtual ~CapturedStep() = default;
  // The event has happened once this replay has run. Replays come one after another, also where
  // they are on several streams.
  virtual Event replay(const Stream& stream) = 0;
};

// Not thread-safe; one stream of steps.
class DeviceLayer {
 public:
  virtual ~DeviceLayer() = default;
  // Enqueues a step; the event has happened once it has run. May be captured into a graph of the
  // caller's, which then reads the same addresses at each replay; a captured step enqueues nothing,
  // so that its event has happened. The output of a step whose plan fails is 0. ShapeMismatch,
  // DtypeMismatch, DeviceUnavailable (a tensor of another device), InvalidValue (alignment),
  // WorkspaceTooSmall (more than max_tokens).
  virtual Event forward(const DeviceStep& step, const Stream& stream) = 0;
  // The same under a lease, whose generation can't retire before the event. GenerationMismatch when
  // the layer's plan is of another placement; GraphCaptureNotSupported while the stream is
  // captured: a CapturedStep holds the lease of a step that is replayed.
  virtual Event forward(const DeviceStep& step, const Stream& stream, Lease lease) = 0;
  // Captures on `stream`, which must have nothing else going on. The layer must outlive the result.
  // A lease is held until the last replay has run: the graph reads its generation's tables.
  virtual std::unique_ptr<CapturedStep> capture(const DeviceStep& step, const Stream& stream,
                                                Lease lease = {}) = 0;
  // Waits for the stream and throws what the last step found: what DevicePlan::check throws, or
  // GateNotFinite for the gate of an accepted route. Its output is invalid then; later steps are
  // not affected.
  virtual void check(const Stream& stream) const = 0;
  virtual const DevicePlan& plan() const = 0;
  // Device memory that the layer has reserved; a step takes no more.
  virtual std::size_t workspace_bytes() const = 0;
};

// For a rank that owns all slots of `placement`. `experts` stand in local slot order; the layer
// shares them. What make_device_plan() throws; DescriptorSlotMismatch when the numbers of slots
// differ, InvalidValue when the hidden size isn't a multiple of 8.
std::unique_ptr<DeviceLayer> make_device_layer(const DeviceLayerOptions& options,
                                               const SelectionTable& table,
                                               const Placement& placement,
                                               std::shared_ptr<const DeviceExperts> experts);

}  // namespace waybill
