#include <gtest/gtest.h>

#include <array>

#include "support/fault.h"
#include "waybill/router.h"

namespace waybill {
namespace {

using testing::fault;

std::array<float, 64> floats{};

TensorView view(std::initializer_list<std::int64_t> shape, DType dtype = DType::f32) {
  return TensorView::contiguous(floats.data(), dtype, shape);
}

// E = 4, d = 3, k = 2, T = 5, all legal.
struct Call {
  Router router{{.experts = 4, .topk = 2}, view({4, 3}), {}, {}};
  TensorView hidden = view({5, 3});

  Error error() const {
    return fault([&] { route(router, hidden); });
  }
};

TEST(RouterFault, LegalCallPasses) {
  const Call call;
  EXPECT_NO_THROW(route(call.router, call.hidden));
}

TEST(RouterFault, MoreChoicesThanExperts) {
  Call call;
  call.router.spec.topk = 5;
  EXPECT_EQ(call.error().code(), Code::TopKExceedsExperts);
  call.router.spec.topk = 3;
  call.router.spec.groups = 2;
  EXPECT_EQ(call.error().code(), Code::TopKExceedsExperts) << "a kept group has two experts";
}

TEST(RouterFault, SpecOutOfRangeNamesTheField) {
  const auto field = [](auto mutate) {
    Call call;
    mutate(call.router.spec);
    const Error error = call.error();
    EXPECT_EQ(error.code(), Code::InvalidValue);
    return std::string(error.coordinate("field"));
  };
  EXPECT_EQ(field([](RouterSpec& s) { s.experts = 0; }), "experts");
  EXPECT_EQ(field([](RouterSpec& s) { s.topk = 0; }), "topk");
  EXPECT_EQ(field([](RouterSpec& s) { s.groups = 3; }), "groups");
  EXPECT_EQ(field([](RouterSpec& s) { s.groups = 0; }), "groups");
  EXPECT_EQ(field([](RouterSpec& s) { s.topk_groups = 2; }), "topk_groups");
  EXPECT_EQ(field([](RouterSpec& s) { s.topk_groups = 0; }), "topk_groups");
}

TEST(RouterFault, SparsemixerKnowsNeitherGroupsNorASelectionBias) {
  Call call;
  call.router.spec.score = RouterScore::sparsemixer;
  EXPECT_NO_THROW(route(call.router, call.hidden));
  call.router.selection_bias = view({4});
  EXPECT_EQ(call.error().code(), Code::InvalidValue);
  EXPECT_EQ(call.error().coordinate("field"), "selection_bias");
  call.router.spec.groups = 2;
  EXPECT_EQ(call.error().code(), Code::InvalidValue);
  EXPECT_EQ(call.error().coordinate("field"), "groups");
}

TEST(RouterFault, WrongShapeNamesTheTensor) {
  const auto field = [](auto mutate) {
    Call call;
    mutate(call);
    const Error error = call.error();
    EXPECT_EQ(error.code(), Code::ShapeMismatch);
    return std::string(error.coordinate("field"));
  };
  EXPECT_EQ(field([](Call& c) { c.hidden = view({5, 2}); }), "weight");
  EXPECT_EQ(field([](Call& c) { c.hidden = view({15}); }), "hidden");
  EXPECT_EQ(field([](Call& c) { c.router.weight = view({3, 3}); }), "weight");
  EXPECT_EQ(field([](Call& c) { c.router.bias = view({3}); }), "bias");
  EXPECT_EQ(field([](Call& c) { c.router.selection_bias = view({4, 1}); }), "selection_bias");
  EXPECT_EQ(field([](Call& c) { std::swap(c.hidden.strides[0], c.hidden.strides[1]); }), "hidden");
}

TEST(RouterFault, OtherDtypesAndDevicesAreRefused) {
  Call call;
  call.router.weight = view({4, 3}, DType::f8_e4m3);
  EXPECT_EQ(call.error().code(), Code::DtypeMismatch);
  call = {};
  call.hidden.device = {DeviceKind::cuda, 0};
  EXPECT_EQ(call.error().code(), Code::DeviceUnavailable);
}

TEST(RouterFault, MoreRoutesThanARankCanNumber) {
  Call call;
  call.router.weight = view({4, 0});
  call.hidden = view({std::int64_t{1} << 31, 0});
  EXPECT_EQ(call.error().code(), Code::RouteCountMismatch);
}

}  // namespace
}  // namespace waybill
