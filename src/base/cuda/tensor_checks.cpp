#include "base/cuda/tensor_checks.h"

#include <algorithm>
#include <span>

#include "waybill/error.h"

namespace waybill {

void check_tensor(const TensorView& view, std::string_view tensor, Device device,
                  std::initializer_list<DType> dtypes, std::initializer_list<std::int64_t> shape) {
  const std::span<const std::int64_t> expected(shape.begin(), shape.size());
  const std::span<const std::int64_t> found(view.shape.data(), static_cast<std::size_t>(view.rank));
  if (!std::ranges::equal(expected, found)) {
    throw Error(Code::ShapeMismatch)
        .at("tensor", tensor)
        .expected(shape_text(expected))
        .found(shape_text(view));
  }
  if (std::ranges::find(dtypes, view.dtype) == dtypes.end()) {
    throw Error(Code::DtypeMismatch)
        .at("tensor", tensor)
        .expected(*dtypes.begin())
        .found(view.dtype);
  }
  if (view.elements() == 0) return;
  if (view.device != device) {
    throw Error(Code::DeviceUnavailable)
        .at("tensor", tensor)
        .expected(name(device))
        .found(name(view.device));
  }
  if (view.data == nullptr) {
    throw Error(Code::InvalidValue).at("tensor", tensor).expected("memory").found("null");
  }
  const auto last = static_cast<std::size_t>(view.rank) - 1;
  if (view.shape[last] > 1 && view.strides[last] != 1) {
    throw Error(Code::InvalidValue)
        .at("tensor", tensor)
        .expected("the elements of a row adjacent")
        .found(view.strides[last]);
  }
}

void check_contiguous(const TensorView& view, std::string_view tensor, Device device,
                      std::initializer_list<DType> dtypes,
                      std::initializer_list<std::int64_t> shape) {
  check_tensor(view, tensor, device, dtypes, shape);
  if (view.elements() == 0 || view.is_contiguous()) return;
  throw Error(Code::InvalidValue).at("tensor", tensor).expected("rows without gaps");
}

}  // namespace waybill
