// The rows that a caller hands to a step.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "waybill/tensor.h"

namespace waybill {

// [tokens, hidden] in one of `dtypes`, on the host, the elements of a row adjacent, each row past
// the end of the one before: DeviceUnavailable, DtypeMismatch or ShapeMismatch with the tensor's
// name.
void check_rows(const TensorView& rows, std::string_view tensor, std::int64_t tokens,
                std::int64_t hidden, std::initializer_list<DType> dtypes);

}  // namespace waybill
