// What a layer does with faults and corner cases, and that it stays usable after them.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "cuda/layer_case.h"
#include "exec/cuda/row_movement.h"
#include "support/fault.h"

namespace waybill {
namespace {

using testing::fault;
using testing::gpu;
using testing::LayerCase;
using testing::LayerShape;
using testing::on_gpu;
using testing::StepInput;

const LayerShape kShape{.hidden = 128, .ff = 64, .experts = 8, .topk = 2};

bool all_zero(const std::vector<float>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](float x) { return x == 0.0F; });
}

TEST(DeviceLayer, BadIdsGiveZerosATypedErrorAndAUsableLayer) {
  LayerCase layer(kShape, 20, 1);
  const StepInput good = layer.random_input(20);
  const std::vector<float> expected = layer.run(good);
  StepInput bad = good;
  bad.experts[7] = 8;
  EXPECT_TRUE(all_zero(layer.run(bad)));
  const Error error = fault([&] { layer.layer().check(layer.stream()); });
  EXPECT_EQ(error.code(), Code::ExpertIdOutOfRange);
  EXPECT_EQ(error.coordinate("token"), "3");
  EXPECT_EQ(error.coordinate("route slot"), "1");
  EXPECT_EQ(layer.run(good), expected);
  layer.layer().check(layer.stream());
}

TEST(DeviceLayer, AllDroppedGivesExactZeros) {
  LayerCase layer(kShape, 20, 2);
  StepInput in = layer.random_input(20);
  std::fill(in.experts.begin(), in.experts.end(), dropped_route);
  EXPECT_TRUE(all_zero(layer.run(in)));
  layer.layer().check(layer.stream());
}

TEST(DeviceLayer, NoTokensAreAStepToo) {
  LayerCase layer(kShape, 4, 3);
  EXPECT_TRUE(layer.run(layer.random_input(0)).empty());
  layer.layer().check(layer.stream());
}

TEST(DeviceLayer, TheSharedExpertsRowsAreAddedLast) {
  LayerCase layer(kShape, 6, 4);
  StepInput in = layer.random_input(6);
  std::fill(in.experts.begin(), in.experts.begin() + 2, dropped_route);
  const std::vector<float> routed = layer.run(in);
  std::vector<float> shared(routed.size());
  for (std::size_t i = 0; i < shared.size(); ++i) shared[i] = static_cast<float>(i % 17) - 8.5F;
  const auto shared_gpu = on_gpu(shared);
  layer.upload(in);
  DeviceStep step = layer.step(6);
  step.shared = testing::matrix(shared_gpu, DType::f32, 6, kShape.hidden);
  layer.layer().forward(step, layer.stream());
  const std::vector<float> found = layer.output(6);
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], routed[i] + shared[i]);
}

// The plan, one activated row and one returned row of every route and two counts, nothing else.
TEST(DeviceLayer, TheWorkspaceIsToldUpFront) {
  for (const std::int32_t tokens : {1, 100, 4096}) {
    LayerCase layer(kShape, tokens, 5);
    const std::size_t routes = static_cast<std::size_t>(tokens) * 2;
    const std::size_t activated = routes * 64 * size_of(DType::bf16);
    const std::size_t returned = routes * 128 * size_of(DType::bf16);
    EXPECT_EQ(layer.layer().workspace_bytes(),
              CudaPlan::workspace_bytes(layer.layer().tables(), tokens) +
                  Workspace::padded(activated) + Workspace::padded(returned) +
                  Workspace::padded(2 * sizeof(std::uint32_t)));
  }
}

TEST(DeviceLayer, WrongShapesDtypesAndSizesAreRefused) {
  LayerCase layer(kShape, 10, 6);
  const auto refused = [&](auto change) {
    DeviceStep step = layer.step(10);
    change(step);
    return fault([&] { layer.layer().forward(step, layer.stream()); }).code();
  };
  EXPECT_EQ(refused([](DeviceStep& s) { s.hidden.shape[1] = 64; }), Code::ShapeMismatch);
  EXPECT_EQ(refused([](DeviceStep& s) { s.hidden.dtype = DType::f32; }), Code::DtypeMismatch);
  EXPECT_EQ(refused([](DeviceStep& s) { s.output.dtype = DType::f16; }), Code::DtypeMismatch);
  EXPECT_EQ(refused([](DeviceStep& s) { s.gates.dtype = DType::bf16; }), Code::DtypeMismatch);
  EXPECT_EQ(refused([](DeviceStep& s) { s.experts.shape[1] = 3; }), Code::ShapeMismatch);
  EXPECT_EQ(refused([](DeviceStep& s) { s.hidden.strides[0] = 129; }), Code::InvalidValue);
  EXPECT_EQ(refused([](DeviceStep& s) { s.output.strides[0] = 256; }), Code::InvalidValue);
  EXPECT_EQ(refused([](DeviceStep& s) {
              for (TensorView* view : {&s.experts, &s.gates, &s.hidden, &s.output}) {
                view->shape[0] = 11;
              }
            }),
            Code::WorkspaceTooSmall);
}

// They would end the device's context, and with it the process's use of the device.
TEST(DeviceLayer, MemoryOfAnotherDeviceAndNoMemoryAreRefusedBeforeAKernelReadsThem) {
  LayerCase layer(kShape, 10, 6);
  const StepInput in = layer.random_input(10);
  const std::vector<float> expected = layer.run(in);
  TensorView DeviceStep::*const tensors[] = {&DeviceStep::experts, &DeviceStep::gates,
                                             &DeviceStep::hidden, &DeviceStep::output};
  for (TensorView DeviceStep::*const tensor : tensors) {
    DeviceStep step = layer.step(10);
    (step.*tensor).device = Device{};
    EXPECT_EQ(fault([&] { layer.layer().forward(step, layer.stream()); }).code(),
              Code::DeviceUnavailable);
    step = layer.step(10);
    (step.*tensor).data = nullptr;
    EXPECT_EQ(fault([&] { layer.layer().forward(step, layer.stream()); }).code(),
              Code::InvalidValue);
  }
  EXPECT_EQ(layer.run(in), expected);
}

TEST(DeviceLayer, AGateThatIsNotFiniteIsNamedAtTheStatusReadUnlessItsRouteIsDropped) {
  LayerCase layer(kShape, 20, 9);
  const StepInput good = layer.random_input(20);
  const std::vector<float> expected = layer.run(good);
  StepInput bad = good;
  bad.gates[21] = std::numeric_limits<float>::infinity();
  bad.gates[11] = std::numeric_limits<float>::quiet_NaN();
  layer.run(bad);
  const Error error = fault([&] { layer.layer().check(layer.stream()); });
  EXPECT_EQ(error.code(), Code::GateNotFinite);
  EXPECT_EQ(error.coordinate("token"), "5");
  EXPECT_EQ(error.coordinate("route slot"), "1");
  bad.experts[21] = bad.experts[11] = dropped_route;
  layer.run(bad);
  layer.layer().check(layer.stream());
  EXPECT_EQ(layer.run(good), expected);
  layer.layer().check(layer.stream());
}

TEST(DeviceExperts, EngineTensorsAreUsedInPlaceAndOtherLayoutsRefused) {
  constexpr std::int64_t experts = 4, d = 64, ff = 32;
  std::mt19937 random(7);
  const auto w1 = on_gpu(testing::random_rows(experts * 2 * ff * d, 0.1F, random));
  const auto w2 = on_gpu(testing::random_rows(experts * d * ff, 0.1F, random));
  std::vector<ExpertWeights> slots(experts);
  for (std::int64_t e = 0; e < experts; ++e) {
    ExpertWeights& w = slots[static_cast<std::size_t>(e)];
    w.gate = TensorView::contiguous(w1.data() + e * 2 * ff * d, DType::bf16, {ff, d}, gpu);
    w.up = TensorView::contiguous(w1.data() + (e * 2 + 1) * ff * d, DType::bf16, {ff, d}, gpu);
    w.down = TensorView::contiguous(w2.data() + e * d * ff, DType::bf16, {d, ff}, gpu);
  }
  const CudaExperts in_place = CudaExperts::borrow(slots, gpu);
  EXPECT_EQ(in_place.slots(), experts);
  EXPECT_EQ(in_place.gate_up_stride(), d);
  const auto refused = [&](auto change) {
    std::vector<ExpertWeights> changed = slots;
    change(changed[2]);
    return fault([&] { borrow_experts(changed, gpu); }).code();
  };
  EXPECT_EQ(refused([](ExpertWeights& w) { std::swap(w.up.strides[0], w.up.strides[1]); }),
            Code::InvalidValue);
  EXPECT_EQ(refused([](ExpertWeights& w) { w.down.dtype = DType::f16; }), Code::DtypeMismatch);
  EXPECT_EQ(refused([](ExpertWeights& w) { w.down.shape[0] = 63; }), Code::ShapeMismatch);
  EXPECT_EQ(refused([](ExpertWeights& w) { w.up.device = Device{}; }), Code::DeviceUnavailable);
  const std::vector<const ExpertWeights*> on_the_device{&slots[0]};
  EXPECT_EQ(fault([&] { copy_experts(on_the_device, gpu); }).code(), Code::DeviceUnavailable);
}

TEST(RowMovement, PermuteSendsEachTokensRowToEveryAcceptedRoute) {
  LayerCase layer(kShape, 50, 8);
  StepInput in = layer.random_input(50);
  in.experts[0] = in.experts[33] = dropped_route;
  layer.run(in);
  const PlanView& plan = layer.layer().plan().view();
  const auto send = on_gpu(std::vector<__nv_bfloat16>(100 * layer.hidden(), __nv_bfloat16(-1.0F)));
  launch_permute({.plan = plan,
                  .hidden = layer.step(50).hidden.data,
                  .send = send.data(),
                  .row_bytes = static_cast<std::int64_t>(layer.hidden() * 2)},
                 cuda_stream(layer.stream()));
  layer.stream().synchronize();
  const auto rows = send.download();
  std::vector<std::int32_t> position(100);
  WAYBILL_CALL(cudaMemcpy(position.data(), plan.send_position, 400, cudaMemcpyDeviceToHost));
  for (std::size_t route = 0; route < 100; ++route) {
    if (position[route] < 0) continue;
    for (std::size_t i = 0; i < layer.hidden(); ++i) {
      ASSERT_EQ(testing::bits(rows[static_cast<std::size_t>(position[route]) * layer.hidden() + i]),
                testing::bits(in.hidden[route / 2 * layer.hidden() + i]));
    }
  }
}

}  // namespace
}  // namespace waybill
