#include <cstddef>
#include <cstring>
#include <vector>

#include "waybill/digest.h"
#include "waybill/expert.h"

namespace waybill {
namespace {

void digest_row(Sha256& sha, const std::byte* first, std::int64_t stride, std::int64_t elements,
                std::size_t size, std::vector<std::byte>& row) {
  const auto n = static_cast<std::size_t>(elements);
  if (stride == 1) {
    sha.update(std::span(first, n * size));
    return;
  }
  row.resize(n * size);
  for (std::size_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::int64_t>(i) * stride * static_cast<std::int64_t>(size);
    std::memcpy(row.data() + i * size, first + at, size);
  }
  sha.update(row);
}

void digest_tensor(Sha256& sha, const TensorView& view, std::vector<std::byte>& row) {
  if (view.data == nullptr) return;
  const auto* bytes = static_cast<const std::byte*>(view.data);
  const auto size = size_of(view.dtype);
  if (view.is_contiguous()) {
    sha.update(std::span(bytes, view.bytes()));
    return;
  }
  const bool matrix = view.rank == 2;
  const std::int64_t rows = matrix ? view.shape[0] : 1;
  const std::size_t inner = matrix ? 1 : 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t at = i * view.strides[0] * static_cast<std::int64_t>(size);
    digest_row(sha, bytes + at, view.strides[inner], view.shape[inner], size, row);
  }
}

}  // namespace

std::string parameter_digest(const ExpertWeights& weights) {
  Sha256 sha;
  std::vector<std::byte> row;
  for (const TensorView* view : {&weights.gate, &weights.up, &weights.down, &weights.gate_bias,
                                 &weights.up_bias, &weights.down_bias}) {
    digest_tensor(sha, *view, row);
  }
  return sha.finish_hex();
}

}  // namespace waybill
