// How Hopper's copy engine reads experts and their rows in place.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <span>

#include "expert/cuda/grouped_gemm.h"
#include "waybill/device.h"

namespace waybill {

// Boxes are 64 of K by 128 rows of a slot's weights, rows swizzled by 128 bytes. Those of
// `gate_up` hold 8 rows of gate, the same 8 of up, the next 8 of gate, and so on.
struct WeightMaps {
  CUtensorMap gate_up;  // (K, row of 8, gate or up, eight rows, slot)
  CUtensorMap down;     // (K, row, slot)
};

// Empty when `device` is no Hopper GPU, when the slots' matrices don't lie at equal distances, each
// slot's up behind its gate, or when ff is no multiple of 8. Strides in elements.
std::optional<WeightMaps> map_weights(std::span<const SlotWeights> slots, std::int32_t hidden,
                                      std::int32_t ff, std::int64_t gate_up_stride,
                                      std::int64_t down_stride, Device device);

// Rows in boxes of 64 by 64 and by 16 rows, swizzled alike.
struct RowMaps {
  CUtensorMap by_64, by_16;  // (column, row)
};

// Of rows [rows, width] bf16; `base` is 16-byte aligned, `stride` a multiple of 8. Empty when
// `device` is no Hopper GPU or there are no rows.
std::optional<RowMaps> map_rows(const void* base, std::int64_t rows, std::int64_t width,
                                std::int64_t stride, Device device);

}  // namespace waybill
