// The GPU that tests run on, and what they share.
#pragma once

#include <cuda_bf16.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/cuda/device_array.h"
#include "waybill/device.h"
#include "waybill/tensor.h"

namespace waybill::testing {

inline constexpr Device gpu{DeviceKind::cuda, 0};

template <class T>
DeviceArray<T> on_gpu(const std::vector<T>& host) {
  return {gpu, std::span<const T>(host)};
}

// `array` as [rows, columns].
template <class T>
TensorView matrix(const DeviceArray<T>& array, DType dtype, std::int64_t rows,
                  std::int64_t columns) {
  return TensorView::contiguous(array.data(), dtype, {rows, columns}, gpu);
}

inline std::uint16_t bits(__nv_bfloat16 x) { return std::bit_cast<std::uint16_t>(x); }

inline std::vector<__nv_bfloat16> random_rows(std::size_t size, float scale, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<__nv_bfloat16> values(size);
  for (__nv_bfloat16& value : values) value = __nv_bfloat16(normal(random));
  return values;
}

// True when WAYBILL_GPU_SHORT of the environment asks for fewer and smaller cases: under a tool
// that slows kernels down.
inline bool short_run() { return std::getenv("WAYBILL_GPU_SHORT") != nullptr; }

// SHA-256 of the outputs of fixed steps of many shapes; the same in every build.
std::string output_hash();

}  // namespace waybill::testing
