// A handle is used once, by the layer that made it, in its own phase.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "exec/layer_case.h"
#include "support/fault.h"
#include "support/random_placement.h"

namespace waybill {
namespace {

using testing::fault;
using testing::LayerCase;
using testing::RankStep;

LayerCase one_rank() {
  LayerCase c;
  c.options.hidden = 2;
  c.options.experts = 2;
  c.options.topk = 1;
  c.placement = std::make_shared<const Placement>(
      Placement::contiguous(PlacementVersion("placement-1"), 2, 1));
  c.tokens_per_rank = {1};
  c.experts = {1};
  c.gates = {1};
  c.hidden = {1, 2};
  c.source = testing::scaling_experts({1, 3}, 2, DType::f32);
  c.runner = testing::make_scaling_runner;
  return c;
}

// One rank's layer with all that it refers to.
struct OneRank {
  LayerCase layer_case = one_rank();
  PlacementRegistry registry;
  LocalGroup group{layer_case.group};
  std::unique_ptr<Communicator> comm = group.join(Rank{0});
  RankStep step{layer_case, Rank{0}};
  MoeLayer layer;

  OneRank()
      : layer((testing::load_and_activate(registry, layer_case), layer_case.options), *comm,
              registry, layer_case.topology, layer_case.source, layer_case.runner()) {}

  Returned up_to_return() {
    return layer.collect(layer.give_back(layer.compute(
        layer.receive(layer.dispatch(layer.plan(layer.begin(step.routes())), step.hidden())))));
  }
};

// What a caller without respect for move semantics holds.
template <class Stage>
Handle<Stage> copy_of(const Handle<Stage>& handle) {
  return Handle<Stage>(handle.state());
}

TEST(HandleFaults, MovedFromHandleIsRefused) {
  OneRank rank;
  Routed routed = rank.layer.begin(rank.step.routes());
  const Planned planned = rank.layer.plan(std::move(routed));
  EXPECT_EQ(fault([&] { rank.layer.plan(std::move(routed)); }).code(), Code::HandleReuse);
}

TEST(HandleFaults, MovedFromHandleTellsNothing) {
  OneRank rank;
  Routed routed = rank.layer.begin(rank.step.routes());
  const Routed taken = std::move(routed);
  EXPECT_EQ(taken.placement(), PlacementVersion("placement-1"));
  EXPECT_EQ(fault([&] { routed.placement(); }).code(), Code::HandleReuse);
  EXPECT_EQ(fault([&] { routed.plan(); }).code(), Code::HandleReuse);
}

TEST(HandleFaults, SecondUseOfOneStageIsRefused) {
  OneRank rank;
  Planned planned = rank.layer.plan(rank.layer.begin(rank.step.routes()));
  Planned again = copy_of(planned);
  const InFlight in_flight = rank.layer.dispatch(std::move(planned), rank.step.hidden());
  EXPECT_EQ(fault([&] { rank.layer.dispatch(std::move(again), rank.step.hidden()); }).code(),
            Code::HandleReuse);
}

TEST(HandleFaults, SecondCombineIsRefused) {
  OneRank rank;
  Returned returned = rank.up_to_return();
  Returned again = copy_of(returned);
  rank.layer.combine(std::move(returned), rank.step.output());
  EXPECT_EQ(rank.step.result(), (std::vector<float>{3, 6}));
  EXPECT_EQ(fault([&] { rank.layer.combine(std::move(again), rank.step.output()); }).code(),
            Code::HandleReleased);
}

TEST(HandleFaults, StageThatIsNotReachedIsRefused) {
  OneRank rank;
  const Routed routed = rank.layer.begin(rank.step.routes());
  EXPECT_EQ(fault([&] { rank.layer.combine(Returned(routed.state()), rank.step.output()); }).code(),
            Code::HandleTypeMismatch);
}

TEST(HandleFaults, AnotherLayersHandleIsRefused) {
  OneRank one, other;
  EXPECT_EQ(fault([&] { other.layer.plan(one.layer.begin(one.step.routes())); }).code(),
            Code::HandleUnknown);
}

TEST(HandleFaults, SecondStepBeforeTheFirstCombineIsRefused) {
  OneRank rank;
  const Planned planned = rank.layer.plan(rank.layer.begin(rank.step.routes()));
  EXPECT_EQ(fault([&] { rank.layer.begin(rank.step.routes()); }).code(),
            Code::PairedStateOverwritten);
}

TEST(HandleFaults, DroppedHandleReleasesItsGeneration) {
  OneRank rank;
  const PlacementVersion version("placement-1");
  {
    const Planned planned = rank.layer.plan(rank.layer.begin(rank.step.routes()));
    EXPECT_EQ(rank.registry.references(version), 1);
  }
  EXPECT_EQ(rank.registry.references(version), 0);
  EXPECT_NO_THROW(rank.layer.forward(rank.step.routes(), rank.step.hidden(), rank.step.output()));
  EXPECT_EQ(rank.registry.references(version), 0);
}

TEST(HandleFaults, FailedStepReleasesItsGeneration) {
  OneRank rank;
  const TensorView wrong = TensorView::contiguous(rank.step.hidden().data, DType::f32, {2, 1});
  EXPECT_EQ(
      fault([&] { rank.layer.forward(rank.step.routes(), wrong, rank.step.output()); }).code(),
      Code::ShapeMismatch);
  EXPECT_EQ(rank.registry.references(PlacementVersion("placement-1")), 0);
}

TEST(HandleFaults, LayerGoneBeforeItsHandle) {
  std::optional<InFlight> in_flight;
  LayerCase c = one_rank();
  PlacementRegistry registry;
  testing::load_and_activate(registry, c);
  LocalGroup group(c.group);
  const auto comm = group.join(Rank{0});
  RankStep step(c, Rank{0});
  {
    MoeLayer layer(c.options, *comm, registry, c.topology, c.source, c.runner());
    in_flight = layer.dispatch(layer.plan(layer.begin(step.routes())), step.hidden());
  }
  in_flight.reset();
  EXPECT_EQ(registry.references(PlacementVersion("placement-1")), 0);
}

TEST(TensorFaults, NameTheTensorAndWhatWasExpected) {
  const auto code_of = [](const TensorView& hidden, const TensorView& output) {
    OneRank rank;
    return fault([&] { rank.layer.forward(rank.step.routes(), hidden, output); }).code();
  };
  std::vector<float> rows(8);
  const auto good = TensorView::contiguous(rows.data(), DType::f32, {1, 2});
  const auto narrow = TensorView::contiguous(rows.data(), DType::bf16, {1, 2});
  auto scattered = good;
  scattered.strides = {4, 2};
  auto elsewhere = good;
  elsewhere.device = {DeviceKind::cuda, 0};
  EXPECT_EQ(code_of(narrow, good), Code::DtypeMismatch);
  EXPECT_EQ(code_of(scattered, good), Code::ShapeMismatch);
  EXPECT_EQ(code_of(elsewhere, good), Code::DeviceUnavailable);
  EXPECT_EQ(code_of(good, narrow), Code::DtypeMismatch);
  EXPECT_EQ(code_of(good, TensorView::contiguous(rows.data(), DType::f32, {2, 2})),
            Code::ShapeMismatch);
}

TEST(TensorFaults, RowsThatOverlapOrRunBackwardsAreRefused) {
  LayerCase c = one_rank();
  c.tokens_per_rank = {3};
  c.experts = {1, 0, 1};
  c.gates = {1, 1, 1};
  c.hidden.assign(6, 1.0F);
  const auto error_of = [&](std::int64_t stride) -> std::optional<Error> {
    PlacementRegistry registry;
    testing::load_and_activate(registry, c);
    LocalGroup group(c.group);
    const auto comm = group.join(Rank{0});
    MoeLayer layer(c.options, *comm, registry, c.topology, c.source, c.runner());
    RankStep step(c, Rank{0});
    std::vector<float> rows(32);
    TensorView output = TensorView::contiguous(rows.data() + 16, DType::f32, {3, 2});
    output.strides[0] = stride;
    try {
      layer.forward(step.routes(), step.hidden(), output);
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  };
  for (const std::int64_t stride : {0, 1, -2, -4}) {
    const auto error = error_of(stride);
    ASSERT_TRUE(error) << stride;
    EXPECT_EQ(error->code(), Code::ShapeMismatch);
    EXPECT_EQ(error->coordinate("tensor"), "output");
    EXPECT_EQ(error->coordinate("field"), "strides");
  }
  for (const std::int64_t stride : {2, 5}) EXPECT_FALSE(error_of(stride)) << stride;
}

TEST(LayerOptionFaults, AreRefusedBeforeAnyStepByName) {
  const auto fault_of = [](const std::function<void(LayerOptions&)>& spoil) {
    OneRank rank;
    LayerOptions options = rank.layer_case.options;
    spoil(options);
    return fault([&] {
      MoeLayer(options, *rank.comm, rank.registry, rank.layer_case.topology,
               rank.layer_case.source);
    });
  };
  const auto expect = [&](Code code, std::string_view field,
                          const std::function<void(LayerOptions&)>& spoil) {
    const Error error = fault_of(spoil);
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(error.coordinate("field"), field);
  };
  expect(Code::TopKExceedsExperts, "topk", [](LayerOptions& o) { o.topk = 3; });
  expect(Code::InvalidValue, "hidden", [](LayerOptions& o) { o.hidden = 0; });
  expect(Code::DtypeMismatch, "dtype", [](LayerOptions& o) { o.dtype = DType::f16; });
}

}  // namespace
}  // namespace waybill
