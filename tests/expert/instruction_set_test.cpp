#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <set>

#include "expert/kernels.h"
#include "expert/random_expert.h"

namespace waybill {
namespace {

// Runs `body` with the kernels of each instruction set that this machine has.
void on_every_target(const auto& body) {
  for (const std::int64_t target : runnable_kernel_targets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(target));
    EXPECT_EQ(cpu_kernel_target(), hwy::TargetName(target));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(InstructionSet, BestOfTheMachineIsChosen) {
  EXPECT_EQ(cpu_kernel_target(), hwy::TargetName(runnable_kernel_targets().front()));
}

TEST(InstructionSet, EachIsAccurateAndItselfRowIndependent) {
  Random random(13);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const RandomExpert expert(dtype, 75, 41, random, true);
    const Elements input = random_elements(dtype, 31, 75, 1, random);
    const auto packed = ExpertBundle::pack(expert.weights, dtype);
    const auto borrowed = ExpertBundle::borrow(expert.weights, dtype);
    const Activation clamped{ActivationKind::swiglu_clamped, 1.702F, 1.0F};
    on_every_target([&] {
      for (const Activation& activation : {Activation{}, clamped}) {
        const Elements output = run_one(*packed, input, dtype, nullptr, activation);
        const testing::Difference found = difference(output, expert.weights, activation, input);
        EXPECT_LE(dtype == DType::f32 ? found.largest() : found.frobenius(),
                  dtype == DType::f32 ? 1e-5 : 1e-2);
        EXPECT_EQ(run_one(*borrowed, input, dtype, nullptr, activation).bytes, output.bytes);
        for (std::int32_t r = 0; r < 31; ++r) {
          const Elements alone =
              run_one(*packed, rows_of(input, std::vector{r}), dtype, nullptr, activation);
          EXPECT_TRUE(std::ranges::equal(row_bytes(alone, 0), row_bytes(output, r)));
        }
      }
    });
  }
}

TEST(InstructionSet, Bf16OutputsRoundLikeTheScalarRule) {
  // Gate and up give h = silu(x)·1, which the down weight of a chosen scale turns into any float.
  Random random(17);
  std::uniform_int_distribution<std::uint32_t> any;
  const RandomExpert expert(DType::f32, 64, 1, random, true);
  const Elements input = random_elements(DType::f32, 1, 64, 1, random);
  RandomExpert scaled(DType::f32, 64, 1, random, true);
  on_every_target([&] {
    for (int round = 0; round < 200; ++round) {
      for (std::int64_t i = 0; i < 64; ++i) {
        scaled.down_bias.set(i, 0, std::bit_cast<float>(any(random)));
        scaled.down.set(i, 0, 0);
      }
      const auto bundle = ExpertBundle::pack(scaled.weights, DType::f32);
      const Elements full = run_one(*bundle, input, DType::f32);
      const Elements rounded = run_one(*bundle, input, DType::bf16);
      for (std::int64_t i = 0; i < 64; ++i) {
        EXPECT_EQ(rounded.view.as<std::uint16_t>()[i], round_to_bf16(full.view.as<float>()[i]));
      }
    }
  });
}

}  // namespace
}  // namespace waybill
