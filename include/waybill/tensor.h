// A tensor that somebody else owns, and memory that is reserved before a step runs.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "waybill/device.h"
#include "waybill/dtype.h"

namespace waybill {

// {pointer, dtype, shape, strides, device}; owns nothing. Strides count elements, not bytes, and
// may express transposed and interleaved layouts. At most 4 dimensions.
struct TensorView {
  static constexpr std::size_t max_rank = 4;

  void* data = nullptr;
  DType dtype = DType::f32;
  std::int32_t rank = 0;
  std::array<std::int64_t, max_rank> shape{};
  std::array<std::int64_t, max_rank> strides{};
  Device device{};

  // Row-major over `data`.
  static TensorView contiguous(void* data, DType dtype, std::initializer_list<std::int64_t> shape,
                               Device device = {}) {
    assert(shape.size() <= max_rank);
    TensorView view;
    view.data = data;
    view.dtype = dtype;
    view.device = device;
    for (std::int64_t extent : shape) view.shape[static_cast<std::size_t>(view.rank++)] = extent;
    std::int64_t step = 1;
    for (std::int32_t i = view.rank; i-- > 0;) {
      view.strides[static_cast<std::size_t>(i)] = step;
      step *= view.shape[static_cast<std::size_t>(i)];
    }
    return view;
  }
  static TensorView contiguous(const void* data, DType dtype,
                               std::initializer_list<std::int64_t> shape, Device device = {}) {
    return contiguous(const_cast<void*>(data), dtype, shape, device);
  }

  std::int64_t elements() const {
    std::int64_t n = 1;
    for (std::int32_t i = 0; i < rank; ++i) n *= shape[static_cast<std::size_t>(i)];
    return n;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  bool is_contiguous() const {
    std::int64_t step = 1;
    for (std::int32_t i = rank; i-- > 0;) {
      const auto d = static_cast<std::size_t>(i);
      if (shape[d] != 1 && strides[d] != step) return false;
      step *= shape[d];
    }
    return true;
  }
  template <class T>
  T* as() const {
    assert(sizeof(T) == size_of(dtype));
    return static_cast<T*>(data);
  }
};

std::string shape_text(std::span<const std::int64_t> shape);  // "[96, 64]"
// "7 dimensions" for a rank that no view has.
std::string shape_text(const TensorView& view);

// One block of memory on one device, cut into pieces that are all given back together. Pieces are
// 256-byte aligned. Not thread-safe: one workspace per rank.
class Workspace {
 public:
  explicit Workspace(Device device = {}, std::size_t bytes = 0);
  Workspace(Workspace&&) noexcept;
  Workspace& operator=(Workspace&&) noexcept;
  ~Workspace();

  static constexpr std::size_t alignment = 256;
  static constexpr std::size_t padded(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }

  // Grows the block to at least `bytes`. Only between steps: every piece becomes invalid.
  void reserve(std::size_t bytes);
  // The next piece. Throws WorkspaceTooSmall when the reservation doesn't hold it.
  void* take(std::size_t bytes);
  template <class T>
  std::span<T> take_n(std::size_t count) {
    return {static_cast<T*>(take(count * sizeof(T))), count};
  }
  // Gives all pieces back.
  void reset() { used_ = 0; }

  Device device() const { return device_; }
  std::size_t capacity() const { return capacity_; }
  std::size_t used() const { return used_; }

 private:
  Device device_;
  void* block_ = nullptr;
  std::size_t capacity_ = 0, used_ = 0;
};

}  // namespace waybill
