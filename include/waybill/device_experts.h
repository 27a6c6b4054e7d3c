// Experts in a device's memory, for DeviceLayer. They exist where a device of kind cuda can be
// used; DeviceUnavailable elsewhere. Source: reference text 0x04C; docs/decisions/0003.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "waybill/device.h"
#include "waybill/expert.h"

namespace waybill {

// The experts of one rank's slots on a device. Immutable; layers share it.
class DeviceExperts {
 public:
  virtual ~DeviceExperts() = default;
  virtual Device device() const = 0;
  virtual std::int32_t slots() const = 0;
  virtual std::int32_t hidden() const = 0;
  virtual std::int32_t ff() const = 0;
};

// Copies each slot's weights (host memory, any float dtype and strides) to `device` as bf16 rows
// along K, narrowing to nearest even. Slots stand in local slot order; replicas that share one
// ExpertWeights are copied once. ShapeMismatch when a slot's matrices or another slot's extents
// don't fit.
std::shared_ptr<const DeviceExperts> copy_experts(std::span<const ExpertWeights* const> slots,
                                                  Device device);
// Uses the owner's device memory in place: bf16, contiguous along K, row strides and addresses
// multiples of 16 bytes and the same strides in every slot; [E, 2 * ff, d] and [E, d, ff] tensors
// are such views. Biases, when present, are f32. The memory must outlive the experts.
// DeviceUnavailable (a matrix of another device), DtypeMismatch, ShapeMismatch, InvalidValue (a
// layout that the kernels can't read in place; copy_experts() takes it).
std::shared_ptr<const DeviceExperts> borrow_experts(std::span<const ExpertWeights> slots,
                                                    Device device);

}  // namespace waybill
