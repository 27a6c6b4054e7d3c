#include "exec/row_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "waybill/error.h"

namespace waybill {

void check_rows(const TensorView& rows, std::string_view tensor, std::int64_t tokens,
                std::int64_t hidden, std::initializer_list<DType> dtypes) {
  if (rows.device.kind != DeviceKind::cpu) {
    throw Error(Code::DeviceUnavailable)
        .at("tensor", tensor)
        .expected("cpu")
        .found(name(rows.device));
  }
  if (std::ranges::find(dtypes, rows.dtype) == dtypes.end()) {
    throw Error(Code::DtypeMismatch)
        .at("tensor", tensor)
        .expected(*dtypes.begin())
        .found(rows.dtype);
  }
  if (rows.rank != 2 || rows.shape[0] != tokens || rows.shape[1] != hidden) {
    throw Error(Code::ShapeMismatch)
        .at("tensor", tensor)
        .expected(fmt::format("[{}, {}]", tokens, hidden))
        .found(shape_text(rows));
  }
  const bool is_adjacent = rows.strides[1] == 1 || hidden == 1;
  const bool is_apart = rows.strides[0] >= hidden || tokens <= 1;
  if (!is_adjacent || !is_apart) {
    throw Error(Code::ShapeMismatch)
        .at("tensor", tensor)
        .at("field", "strides")
        .expected(fmt::format("[{} or more, 1]", hidden))
        .found(shape_text(std::span(rows.strides).first(2)));
  }
}

}  // namespace waybill
