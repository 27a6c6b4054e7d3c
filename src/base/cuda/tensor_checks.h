// What the tensors of a device step must be.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "waybill/tensor.h"

namespace waybill {

// `view` lies on `device`, has one of `dtypes` and that shape, memory when it has elements, and
// adjacent elements in each row: DeviceUnavailable, DtypeMismatch, ShapeMismatch or InvalidValue
// with the tensor's name.
void check_tensor(const TensorView& view, std::string_view tensor, Device device,
                  std::initializer_list<DType> dtypes, std::initializer_list<std::int64_t> shape);
// The same, and no gap between rows.
void check_contiguous(const TensorView& view, std::string_view tensor, Device device,
                      std::initializer_list<DType> dtypes,
                      std::initializer_list<std::int64_t> shape);

}  // namespace waybill
