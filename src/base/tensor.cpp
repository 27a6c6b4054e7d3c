#include "waybill/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <utility>

#include "base/memory.h"
#include "waybill/error.h"

namespace waybill {

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string shape_text(const TensorView& view) {
  if (view.rank < 0 || std::cmp_greater(view.rank, TensorView::max_rank)) {
    return fmt::format("{} dimensions", view.rank);
  }
  return shape_text(std::span(view.shape).first(static_cast<std::size_t>(view.rank)));
}

Workspace::Workspace(Device device, std::size_t bytes) : device_(device) { reserve(bytes); }

Workspace::Workspace(Workspace&& other) noexcept
    : device_(other.device_),
      block_(std::exchange(other.block_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      used_(std::exchange(other.used_, 0)) {}

Workspace& Workspace::operator=(Workspace&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(block_, other.block_);
  std::swap(capacity_, other.capacity_);
  std::swap(used_, other.used_);
  return *this;
}

Workspace::~Workspace() { release_memory(device_, block_, capacity_); }

void Workspace::reserve(std::size_t bytes) {
  used_ = 0;
  if (bytes <= capacity_) return;
  release_memory(device_, block_, capacity_);
  block_ = nullptr;
  capacity_ = 0;
  block_ = reserve_memory(device_, padded(bytes));
  capacity_ = padded(bytes);
}

void* Workspace::take(std::size_t bytes) {
  const std::size_t size = padded(bytes);
  if (size > capacity_ - used_) {
    throw Error(Code::WorkspaceTooSmall)
        .at("device", device_)
        .expected(fmt::format("{} more bytes", size))
        .found(fmt::format("{} of {}", capacity_ - used_, capacity_));
  }
  void* piece = static_cast<std::byte*>(block_) + used_;
  used_ += size;
  return piece;
}

}  // namespace waybill
