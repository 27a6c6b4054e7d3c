#include "expert/cuda/device_experts.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "waybill/error.h"

namespace waybill {
namespace {

void require_shape(const TensorView& view, const char* tensor, std::size_t slot,
                   std::initializer_list<std::int64_t> shape) {
  const std::span<const std::int64_t> found(view.shape.data(), static_cast<std::size_t>(view.rank));
  const std::span<const std::int64_t> expected(shape.begin(), shape.size());
  if (std::equal(found.begin(), found.end(), expected.begin(), expected.end())) return;
  throw Error(Code::ShapeMismatch)
      .at("slot", slot)
      .at("tensor", tensor)
      .expected(shape_text(expected))
      .found(shape_text(found));
}

// Where the weights must lie: on the host to be copied, on the device to be used in place.
void require_device(const ExpertWeights& w, std::size_t slot, Device device) {
  const std::pair<const char*, const TensorView*> matrices[] = {
      {"gate", &w.gate},           {"up", &w.up},           {"down", &w.down},
      {"gate_bias", &w.gate_bias}, {"up_bias", &w.up_bias}, {"down_bias", &w.down_bias}};
  for (const auto& [tensor, view] : matrices) {
    if (view->data == nullptr || view->device == device) continue;
    throw Error(Code::DeviceUnavailable)
        .at("slot", slot)
        .at("tensor", tensor)
        .expected(name(device))
        .found(name(view->device));
  }
}

void check_shapes(const ExpertWeights& w, std::size_t slot, std::int64_t hidden, std::int64_t ff) {
  require_shape(w.gate, "gate", slot, {ff, hidden});
  require_shape(w.up, "up", slot, {ff, hidden});
  require_shape(w.down, "down", slot, {hidden, ff});
  if (w.gate_bias.data != nullptr) require_shape(w.gate_bias, "gate_bias", slot, {ff});
  if (w.up_bias.data != nullptr) require_shape(w.up_bias, "up_bias", slot, {ff});
  if (w.down_bias.data != nullptr) require_shape(w.down_bias, "down_bias", slot, {hidden});
}

// Appends the rows of `view`, each padded with zeros to `stride`; returns where they begin.
std::size_t append_rows(std::vector<__nv_bfloat16>& to, const TensorView& view,
                        std::int64_t stride) {
  const std::size_t start = to.size();
  to.resize(start + static_cast<std::size_t>(view.shape[0] * stride), __nv_bfloat16(0.0F));
  for (std::int64_t i = 0; i < view.shape[0]; ++i) {
    __nv_bfloat16* row = to.data() + start + i * stride;
    for (std::int64_t j = 0; j < view.shape[1]; ++j) {
      row[j] = __nv_bfloat16(static_cast<float>(element(view, i, j)));
    }
  }
  return start;
}

std::size_t append_bias(std::vector<float>& to, const TensorView& bias) {
  const std::size_t start = to.size();
  if (bias.data == nullptr) return start;
  for (std::int64_t i = 0; i < bias.shape[0]; ++i) {
    to.push_back(static_cast<float>(element(bias, i)));
  }
  return start;
}

const __nv_bfloat16* in_place(const TensorView& view, const char* tensor, std::size_t slot,
                              std::int64_t stride) {
  if (view.dtype != DType::bf16) {
    throw Error(Code::DtypeMismatch)
        .at("slot", slot)
        .at("tensor", tensor)
        .expected("bf16")
        .found(view.dtype);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  if (view.strides[1] != 1 || view.strides[0] != stride || stride % kElementsPerCopy != 0 ||
      address % 16 != 0) {
    throw Error(Code::InvalidValue)
        .at("slot", slot)
        .at("tensor", tensor)
        .expected("rows contiguous along K, 16-byte aligned, one row stride for all slots")
        .found(fmt::format("strides {}",
                           shape_text(std::span<const std::int64_t>(view.strides.data(), 2))));
  }
  return view.as<const __nv_bfloat16>();
}

const float* bias_in_place(const TensorView& bias, const char* tensor, std::size_t slot) {
  if (bias.data == nullptr) return nullptr;
  if (bias.dtype != DType::f32) {
    throw Error(Code::DtypeMismatch)
        .at("slot", slot)
        .at("tensor", tensor)
        .expected("f32")
        .found(bias.dtype);
  }
  return bias.as<const float>();
}

}  // namespace

CudaExperts CudaExperts::copy(std::span<const ExpertWeights* const> slots, Device device) {
  CudaExperts experts(device);
  if (slots.empty()) return experts;
  experts.hidden_ = static_cast<std::int32_t>(slots[0]->hidden());
  experts.ff_ = static_cast<std::int32_t>(slots[0]->ff());
  experts.gate_up_stride_ = padded_width(experts.hidden_);
  experts.down_stride_ = padded_width(experts.ff_);

  struct Place {
    std::size_t gate, up, down, gate_bias, up_bias, down_bias;
  };
  std::map<const ExpertWeights*, Place> places;
  std::vector<__nv_bfloat16> weights;
  std::vector<float> biases;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    const ExpertWeights& w = *slots[slot];
    if (places.contains(&w)) continue;
    require_device(w, slot, Device{});
    check_shapes(w, slot, experts.hidden_, experts.ff_);
    places[&w] = {.gate = append_rows(weights, w.gate, experts.gate_up_stride_),
                  .up = append_rows(weights, w.up, experts.gate_up_stride_),
                  .down = append_rows(weights, w.down, experts.down_stride_),
                  .gate_bias = append_bias(biases, w.gate_bias),
                  .up_bias = append_bias(biases, w.up_bias),
                  .down_bias = append_bias(biases, w.down_bias)};
  }
  experts.weights_ = {device, std::span<const __nv_bfloat16>(weights)};
  experts.biases_ = {device, std::span<const float>(biases)};

  std::vector<SlotWeights> table;
  for (const ExpertWeights* w : slots) {
    const Place& at = places[w];
    const __nv_bfloat16* base = experts.weights_.data();
    const auto bias = [&](const TensorView& view, std::size_t start) {
      return view.data == nullptr ? nullptr : experts.biases_.data() + start;
    };
    table.push_back({.gate = base + at.gate,
                     .up = base + at.up,
                     .down = base + at.down,
                     .gate_bias = bias(w->gate_bias, at.gate_bias),
                     .up_bias = bias(w->up_bias, at.up_bias),
                     .down_bias = bias(w->down_bias, at.down_bias)});
  }
  experts.keep_table(table);
  return experts;
}

CudaExperts CudaExperts::borrow(std::span<const ExpertWeights> slots, Device device) {
  CudaExperts experts(device);
  if (slots.empty()) return experts;
  experts.hidden_ = static_cast<std::int32_t>(slots[0].hidden());
  experts.ff_ = static_cast<std::int32_t>(slots[0].ff());
  experts.gate_up_stride_ = slots[0].gate.strides[0];
  experts.down_stride_ = slots[0].down.strides[0];
  std::vector<SlotWeights> table;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    const ExpertWeights& w = slots[slot];
    require_device(w, slot, device);
    check_shapes(w, slot, experts.hidden_, experts.ff_);
    table.push_back({.gate = in_place(w.gate, "gate", slot, experts.gate_up_stride_),
                     .up = in_place(w.up, "up", slot, experts.gate_up_stride_),
                     .down = in_place(w.down, "down", slot, experts.down_stride_),
                     .gate_bias = bias_in_place(w.gate_bias, "gate_bias", slot),
                     .up_bias = bias_in_place(w.up_bias, "up_bias", slot),
                     .down_bias = bias_in_place(w.down_bias, "down_bias", slot)});
  }
  experts.keep_table(table);
  return experts;
}

void CudaExperts::keep_table(const std::vector<SlotWeights>& table) {
  table_ = {device_, std::span<const SlotWeights>(table)};
  maps_ = map_weights(table, hidden_, ff_, gate_up_stride_, down_stride_, device_);
}

std::shared_ptr<const DeviceExperts> copy_experts(std::span<const ExpertWeights* const> slots,
                                                  Device device) {
  return std::make_shared<const CudaExperts>(CudaExperts::copy(slots, device));
}

std::shared_ptr<const DeviceExperts> borrow_experts(std::span<const ExpertWeights> slots,
                                                    Device device) {
  return std::make_shared<const CudaExperts>(CudaExperts::borrow(slots, device));
}

}  // namespace waybill
