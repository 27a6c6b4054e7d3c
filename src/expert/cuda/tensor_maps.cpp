#include "expert/cuda/tensor_maps.h"

#include <array>
#include <cstddef>

#include "base/cuda/call.h"

namespace waybill {
namespace {

constexpr cuuint32_t kBoxDepth = 64, kWeightBox = 128;

// Elements from each slot's matrix to the next's; empty unless they are equal and positive.
template <class Address>
std::optional<std::int64_t> distance(std::span<const SlotWeights> slots, const Address& address) {
  if (slots.size() == 1) return 8;  // any
  const std::int64_t step = address(slots[1]) - address(slots[0]);
  if (step <= 0) return std::nullopt;
  for (std::size_t q = 1; q < slots.size(); ++q) {
    if (address(slots[q]) - address(slots[q - 1]) != step) return std::nullopt;
  }
  return step;
}

using Encode = decltype(&cuTensorMapEncodeTiled);

bool is_hopper(Device device) {
  return device_limit(device, cudaDevAttrComputeCapabilityMajor) == 9;
}

// The driver's function, found at run time: the library links no driver.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                              12000, cudaEnableDefault, &found);
  if (status != cudaSuccess || found != cudaDriverEntryPointSuccess) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  return reinterpret_cast<Encode>(function);
}

Encode encode_function() {
  static const Encode function = find_encode();
  return function;
}

// Extents and strides in elements, the innermost dimension first and contiguous.
template <std::size_t kRank>
bool encode(Encode function, CUtensorMap& map, const void* base,
            const std::array<std::int64_t, kRank>& extent,
            const std::array<std::int64_t, kRank - 1>& stride,
            const std::array<cuuint32_t, kRank>& box) {
  std::array<cuuint64_t, kRank> extents{};
  std::array<cuuint64_t, kRank - 1> bytes{};
  std::array<cuuint32_t, kRank> steps{};
  for (std::size_t i = 0; i < kRank; ++i) {
    extents[i] = static_cast<cuuint64_t>(extent[i]);
    steps[i] = 1;
  }
  for (std::size_t i = 0; i + 1 < kRank; ++i) bytes[i] = static_cast<cuuint64_t>(stride[i]) * 2;
  return function(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, static_cast<cuuint32_t>(kRank),
                  const_cast<void*>(base), extents.data(), bytes.data(), box.data(), steps.data(),
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

std::optional<WeightMaps> map_weights(std::span<const SlotWeights> slots, std::int32_t hidden,
                                      std::int32_t ff, std::int64_t gate_up_stride,
                                      std::int64_t down_stride, Device device) {
  if (slots.empty() || ff % 8 != 0 || !is_hopper(device)) return std::nullopt;
  const std::int64_t to_up = slots[0].up - slots[0].gate;
  const auto gates = distance(slots, [](const SlotWeights& w) { return w.gate; });
  const auto ups = distance(slots, [](const SlotWeights& w) { return w.up; });
  const auto downs = distance(slots, [](const SlotWeights& w) { return w.down; });
  if (to_up <= 0 || !gates || gates != ups || !downs) return std::nullopt;
  const Encode function = encode_function();
  if (function == nullptr) return std::nullopt;

  const auto count = static_cast<std::int64_t>(slots.size());
  WeightMaps maps{};
  const bool mapped =
      encode<5>(function, maps.gate_up, slots[0].gate, {hidden, 8, 2, ff / 8, count},
                {gate_up_stride, to_up, 8 * gate_up_stride, *gates},
                {kBoxDepth, 8, 2, kWeightBox / 16, 1}) &&
      encode<3>(function, maps.down, slots[0].down, {ff, hidden, count}, {down_stride, *downs},
                {kBoxDepth, kWeightBox, 1});
  return mapped ? std::optional(maps) : std::nullopt;
}

std::optional<RowMaps> map_rows(const void* base, std::int64_t rows, std::int64_t width,
                                std::int64_t stride, Device device) {
  if (rows == 0 || !is_hopper(device) || encode_function() == nullptr) return std::nullopt;
  RowMaps maps{};
  const auto map_by = [&](CUtensorMap& map, cuuint32_t box) {
    return encode<2>(encode_function(), map, base, {width, rows}, {stride}, {kBoxDepth, box});
  };
  const bool mapped = map_by(maps.by_64, 64) && map_by(maps.by_16, 16);
  return mapped ? std::optional(maps) : std::nullopt;
}

}  // namespace waybill
