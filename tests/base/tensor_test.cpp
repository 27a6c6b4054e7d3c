#include "waybill/tensor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "waybill/error.h"

namespace waybill {
namespace {

TEST(TensorView, ContiguousStridesAreRowMajor) {
  float data[6] = {};
  const TensorView view = TensorView::contiguous(data, DType::f32, {2, 3});
  EXPECT_EQ(view.elements(), 6);
  EXPECT_EQ(view.bytes(), 24U);
  EXPECT_EQ(view.strides[0], 3);
  EXPECT_EQ(view.strides[1], 1);
  EXPECT_TRUE(view.is_contiguous());
  EXPECT_EQ(shape_text(view), "[2, 3]");
  TensorView transposed = view;
  std::swap(transposed.shape[0], transposed.shape[1]);
  std::swap(transposed.strides[0], transposed.strides[1]);
  EXPECT_FALSE(transposed.is_contiguous());
}

TEST(TensorView, ARankThatNoViewHasIsToldAsItIs) {
  TensorView view;
  for (const std::int32_t rank : {-1, 5, 7}) {
    view.rank = rank;
    EXPECT_EQ(shape_text(view), std::to_string(rank) + " dimensions");
  }
}

TEST(Workspace, PiecesAreAlignedAndDisjoint) {
  Workspace workspace({}, 3 * Workspace::alignment);
  auto* a = static_cast<std::byte*>(workspace.take(1));
  auto* b = static_cast<std::byte*>(workspace.take(Workspace::alignment + 1));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a) % Workspace::alignment, 0U);
  EXPECT_EQ(b - a, static_cast<std::ptrdiff_t>(Workspace::alignment));
}

TEST(Workspace, TakingMoreThanReservedIsATypedError) {
  Workspace workspace({}, Workspace::alignment);
  workspace.take(1);
  try {
    workspace.take(1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::WorkspaceTooSmall);
  }
  workspace.reset();
  EXPECT_NE(workspace.take(1), nullptr);
}

TEST(Workspace, GrowingKeepsTheLargerReservation) {
  Workspace workspace({}, 1000);
  workspace.reserve(10);
  EXPECT_GE(workspace.capacity(), 1000U);
  workspace.reserve(5000);
  EXPECT_GE(workspace.capacity(), 5000U);
  Workspace moved = std::move(workspace);
  EXPECT_NE(moved.take(4000), nullptr);
}

TEST(Workspace, CudaMemoryOnAMachineWithoutAGpuIsATypedError) {
  try {
    Workspace workspace({DeviceKind::cuda, 1000}, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::DeviceUnavailable);
    EXPECT_EQ(error.coordinate("device"), "cuda:1000");
  }
}

}  // namespace
}  // namespace waybill
