// DeviceExperts as kernels read them: a table of weight pointers. Weights are the owner's, used in
// place, or bf16 copies that this object owns.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/cuda/device_array.h"
#include "expert/cuda/grouped_gemm.h"
#include "expert/cuda/tensor_maps.h"
#include "waybill/device_experts.h"

namespace waybill {

class CudaExperts final : public DeviceExperts {
 public:
  // copy_experts() and borrow_experts().
  static CudaExperts copy(std::span<const ExpertWeights* const> slots, Device device);
  static CudaExperts borrow(std::span<const ExpertWeights> slots, Device device);

  Device device() const override { return device_; }
  std::int32_t slots() const override { return static_cast<std::int32_t>(table_.size()); }
  std::int32_t hidden() const override { return hidden_; }
  std::int32_t ff() const override { return ff_; }

  const SlotWeights* table() const { return table_.data(); }  // [slots] on the device
  std::int64_t gate_up_stride() const { return gate_up_stride_; }
  std::int64_t down_stride() const { return down_stride_; }
  // Empty where Hopper's copy engine can't read these weights in place.
  const std::optional<WeightMaps>& maps() const { return maps_; }

 private:
  explicit CudaExperts(Device device) : device_(device) {}
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
