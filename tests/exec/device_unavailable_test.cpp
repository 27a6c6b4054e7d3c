// What asks for a device that isn't there, in every build: refused with a type, before anything is
// reserved. Nothing here needs a GPU.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "support/fault.h"
#include "waybill/device_layer.h"

namespace waybill {
namespace {

constexpr Device kAbsent{DeviceKind::cuda, 1000};

TEST(AbsentDevice, TakesNoExperts) {
  std::vector<float> weights(8 * 8, 1.0F);
  ExpertWeights expert;
  expert.gate = expert.up = expert.down =
      TensorView::contiguous(weights.data(), DType::f32, {8, 8});
  const std::array<const ExpertWeights*, 1> slots{&expert};
  EXPECT_EQ(testing::fault([&] { copy_experts(slots, kAbsent); }).code(), Code::DeviceUnavailable);
}

TEST(AbsentDevice, MakesNoPlan) {
  const Placement placement = Placement::contiguous(PlacementVersion{"p"}, 4, 1);
  const std::vector<std::int64_t> counts(4, 0);
  const SelectionTable table =
      select(Selector::first, placement, Topology::uniform(1), Rank{0}, counts);
  EXPECT_EQ(testing::fault([&] {
              make_device_plan(table, placement, ProcessGroup::identity(1), Rank{0}, 2, 16,
                               kAbsent);
            }).code(),
            Code::DeviceUnavailable);
}

}  // namespace
}  // namespace waybill
