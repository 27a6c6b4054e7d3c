// The experts of one rank's local slots on a device: a table of weight pointers that kernels read.
// Weights are the owner's, used in place, or bf16 copies that this object owns.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/cuda/device_array.h"
#include "expert/cuda/grouped_gemm.h"
#include "expert/cuda/tensor_maps.h"
#include "waybill/expert.h"

namespace waybill {

class DeviceExperts {
 public:
  // Copies each slot's weights (host memory, any float dtype and strides) to `device` as bf16 rows
  // along K, narrowing to nearest even. Replicas that share one ExpertWeights are copied once.
  // ShapeMismatch when a slot's matrices or another slot's extents don't fit.
  static DeviceExperts copy(std::span<const ExpertWeights* const> slots, Device device);
  // Uses the owner's device memory in place: bf16, contiguous along K, row strides and addresses
  // multiples of 16 bytes and the same strides in every slot; [E, 2 * ff, d] and [E, d, ff] tensors
  // are such views. Biases, when present, are f32. DtypeMismatch, ShapeMismatch, InvalidValue (a
  // layout that the kernels can't read in place; copy() takes it).
  static DeviceExperts borrow(std::span<const ExpertWeights> slots, Device device);

  std::int32_t slots() const { return static_cast<std::int32_t>(table_.size()); }
  std::int32_t hidden() const { return hidden_; }
  std::int32_t ff() const { return ff_; }
  Device device() const { return device_; }
  const SlotWeights* table() const { return table_.data(); }  // [slots] on the device
  std::int64_t gate_up_stride() const { return gate_up_stride_; }
  std::int64_t down_stride() const { return down_stride_; }
  // Empty where Hopper's copy engine can't read these weights in place.
  const std::optional<WeightMaps>& maps() const { return maps_; }

 private:
  explicit DeviceExperts(Device device) : device_(device) {}
  void keep_table(const std::vector<SlotWeights>& table);

  Device device_;
  std::int32_t hidden_ = 0, ff_ = 0;
  std::int64_t gate_up_stride_ = 0, down_stride_ = 0;
  DeviceArray<__nv_bfloat16> weights_;  // owned copies
  DeviceArray<float> biases_;
  DeviceArray<SlotWeights> table_;
  std::optional<WeightMaps> maps_;
};

}  // namespace waybill
