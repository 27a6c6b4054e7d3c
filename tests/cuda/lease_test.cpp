// What events and leases say of steps that haven't run yet.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include "cuda/layer_case.h"
#include "support/fault.h"
#include "support/random_placement.h"

namespace waybill {
namespace {

using testing::fault;
using testing::LayerCase;
using testing::LayerShape;
using testing::StepInput;

const LayerShape kSmall{.hidden = 64, .ff = 48, .experts = 4, .topk = 2};
const PlacementVersion kNext{"next"};

// Keeps what is enqueued behind it from running until it is opened or destroyed.
class Gate {
 public:
  explicit Gate(const Stream& stream) {
    stream.submit([opened = open_.get_future().share()] {
      opened.wait_for(std::chrono::seconds(30));  // a test that fails must not hang
    });
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() {
    if (!is_open_) open_.set_value();
    is_open_ = true;
  }

 private:
  std::promise<void> open_;
  bool is_open_ = false;
};

// A layer, a step that it has run once (so that its kernels are loaded), and a registry in which
// the layer's placement is ACTIVE and another LOADED.
class LeasedLayer {
 public:
  LeasedLayer() : layer_(kSmall, 20, 1), input_(layer_.random_input(20)) {
    expected_ = layer_.run(input_);
    layer_.upload(input_);
    for (const PlacementVersion& version : {placement(), kNext}) {
      registry_.load(testing::generation_of(Placement::contiguous(version, kSmall.experts, 1),
                                            std::array{LayerId{0}}));
    }
    registry_.activate(placement());
  }

  Event forward(Lease lease) {
    return layer_.layer().forward(layer_.step(20), layer_.stream(), std::move(lease));
  }
  Code refusal_to_retire() {
    return fault([this] { registry_.retire(placement()); }).code();
  }
  void expect_right_output() { EXPECT_EQ(layer_.output(20), expected_); }

  const PlacementVersion& placement() const { return layer_.placement(); }
  LayerCase& layer() { return layer_; }
  PlacementRegistry& registry() { return registry_; }

 private:
  LayerCase layer_;
  StepInput input_;
  std::vector<float> expected_;
  PlacementRegistry registry_;
};

TEST(HeldStream, PlansAndStepsGiveEventsThatHappenOnceTheyHaveRun) {
  LayerCase layer(kSmall, 20, 2);
  const StepInput in = layer.random_input(20);
  const std::vector<float> expected = layer.run(in);
  layer.upload(in);
  const DevicePlanTables& tables = layer.layer().tables();
  Workspace workspace(testing::gpu, CudaPlan::workspace_bytes(tables, 20));
  CudaPlan plan(tables, 20, workspace);
  Gate gate(layer.stream());
  const Event planned = plan.build(layer.step(20).experts, layer.stream(), {});
  const Event done = layer.layer().forward(layer.step(20), layer.stream());
  EXPECT_FALSE(planned.ready());
  EXPECT_FALSE(done.ready());
  gate.open();
  done.wait();
  EXPECT_TRUE(planned.ready());
  EXPECT_EQ(layer.output(20), expected);
}

TEST(HeldStream, AStepsLeaseKeepsItsGenerationUntilTheStepHasRun) {
  LeasedLayer leased;
  Gate gate(leased.layer().stream());
  const Event done = leased.forward(leased.registry().acquire());
  leased.registry().activate(kNext);
  EXPECT_EQ(leased.refusal_to_retire(), Code::RetireWithLiveReferences);
  EXPECT_FALSE(done.ready());
  gate.open();
  done.wait();
  leased.registry().retire(leased.placement());
  EXPECT_EQ(leased.registry().state(leased.placement()), GenerationState::retired);
  leased.expect_right_output();
}

TEST(DeviceLease, OfACapturedStepIsHeldAsLongAsItMayBeReplayed) {
  LeasedLayer leased;
  const Stream& stream = leased.layer().stream();
  std::unique_ptr<CapturedStep> captured =
      leased.layer().layer().capture(leased.layer().step(20), stream, leased.registry().acquire());
  captured->replay(stream).wait();
  leased.expect_right_output();
  leased.registry().activate(kNext);
  EXPECT_EQ(leased.refusal_to_retire(), Code::RetireWithLiveReferences);
  const Event last = captured->replay(stream);
  captured.reset();
  last.wait();
  leased.registry().retire(leased.placement());
}

TEST(DeviceLease, OfAnotherGenerationIsRefusedAndGivenBack) {
  LeasedLayer leased;
  leased.registry().activate(kNext);
  EXPECT_EQ(fault([&] { leased.forward(leased.registry().acquire()); }).code(),
            Code::GenerationMismatch);
  EXPECT_EQ(leased.registry().references(kNext), 0);
  EXPECT_EQ(fault([&] { leased.forward(Lease()); }).code(), Code::HandleNotAcquired);
}

TEST(DeviceLease, IsNotTakenByAStepThatIsBeingCaptured) {
  LeasedLayer leased;
  cudaStream_t stream = cuda_stream(leased.layer().stream());
  WAYBILL_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(fault([&] { leased.forward(leased.registry().acquire()); }).code(),
            Code::GraphCaptureNotSupported);
  const Event captured =
      leased.layer().layer().forward(leased.layer().step(20), leased.layer().stream());
  cudaGraph_t graph = nullptr;
  WAYBILL_CALL(cudaStreamEndCapture(stream, &graph));
  WAYBILL_CALL(cudaGraphDestroy(graph));
  EXPECT_TRUE(captured.ready());  // nothing was enqueued
  EXPECT_EQ(leased.registry().references(leased.placement()), 0);
}

}  // namespace
}  // namespace waybill
