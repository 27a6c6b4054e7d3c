#include "waybill/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/fault.h"

namespace waybill {
namespace {

using ::testing::ElementsAre;
using testing::fault;

const std::vector<float> halves(8, 0.5F);

TEST(Routes, TokenAndRouteSlotArePositions) {
  const Routes routes(2, 3, 8, std::vector<std::int32_t>{0, 1, 2, 3, 4, 5},
                      std::vector<float>(6, 1.0F));
  const RoutesView view = routes.view();
  EXPECT_EQ(view.size(), 6);
  EXPECT_EQ(view.token(RouteId{4}), TokenRow{1});
  EXPECT_EQ(view.slot(RouteId{4}), RouteSlot{1});
  EXPECT_EQ(view.expert(RouteId{4}), ExpertId{4});
}

TEST(Routes, DroppedRoutesAreCountedAndGatesStay) {
  const Routes routes(4, 2, 4, std::vector<std::int32_t>{0, 3, -1, 2, -1, -1, 1, -1}, halves);
  EXPECT_EQ(routes.admission().accepted, 4);
  EXPECT_EQ(routes.admission().dropped, 4);
  EXPECT_EQ(routes.admission().out_of_range, 0);
  EXPECT_TRUE(routes.view().dropped(RouteId{2}));
  EXPECT_FLOAT_EQ(routes.view().gates[3], 0.5F);
}

TEST(Routes, SameExpertTwiceInOneTokenIsLegal) {
  const Routes routes(1, 4, 8, std::vector<std::int32_t>{5, 5, 5, 5}, std::vector<float>(4, 0.25F));
  EXPECT_EQ(routes.admission().accepted, 4);
}

TEST(Routes, ARankMayHaveNoTokens) {
  const Routes routes(0, 2, 4, {}, {});
  EXPECT_EQ(routes.view().size(), 0);
  EXPECT_EQ(routes.admission().accepted, 0);
}

TEST(Routes, IdOutOfRangeIsAnErrorOrACountedDrop) {
  for (std::int32_t id : {4, 1000, -2, std::numeric_limits<std::int32_t>::min(),
                          std::numeric_limits<std::int32_t>::max()}) {
    const std::vector<std::int32_t> ids{0, 1, 2, id};
    const std::vector<float> gates{1, 1, 1, std::numeric_limits<float>::quiet_NaN()};
    const Error error = fault([&] { Routes(2, 2, 4, ids, gates); });
    EXPECT_EQ(error.code(), Code::ExpertIdOutOfRange);
    EXPECT_EQ(error.coordinate("token"), "1");
    EXPECT_EQ(error.coordinate("route_slot"), "1");
    EXPECT_EQ(error.found_text(), std::to_string(id));

    const Routes routes(2, 2, 4, ids, gates, BadIdPolicy::drop);
    EXPECT_TRUE(routes.view().dropped(RouteId{3}));
    EXPECT_EQ(routes.admission().out_of_range, 1);
    EXPECT_EQ(routes.admission().dropped, 1);
    EXPECT_EQ(routes.admission().accepted, 3);
  }
}

TEST(Routes, GateOfAnAcceptedRouteIsFinite) {
  for (float gate :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    const Error error = fault([&] {
      Routes(1, 2, 4, std::vector<std::int32_t>{0, 3}, std::vector{0.5F, gate});
    });
    EXPECT_EQ(error.code(), Code::GateNotFinite);
    EXPECT_EQ(error.coordinate("route_slot"), "1");
    EXPECT_EQ(error.coordinate("expert"), "3");
    const Routes dropped(1, 2, 4, std::vector<std::int32_t>{0, -1}, std::vector{0.5F, gate});
    EXPECT_EQ(dropped.admission().dropped, 1) << "a dropped route's gate isn't read";
  }
}

TEST(Routes, SizesMustAgree) {
  const std::vector<std::int32_t> ids(6, 0);
  const std::vector<float> gates(6, 1.0F);
  const auto code = [&](std::int32_t tokens, std::int32_t topk, std::int32_t experts,
                        std::span<const std::int32_t> i, std::span<const float> g) {
    return fault([&] { Routes(tokens, topk, experts, i, g); }).code();
  };
  EXPECT_EQ(code(2, 2, 4, ids, gates), Code::RouteCountMismatch);
  EXPECT_EQ(code(3, 2, 4, ids, std::span(gates).first(5)), Code::RouteCountMismatch);
  EXPECT_EQ(code(65536, 65536, 4, ids, gates), Code::RouteCountMismatch) << "2^32 routes";
  EXPECT_EQ(code(-1, 2, 4, ids, gates), Code::InvalidValue);
  EXPECT_EQ(code(3, 0, 4, ids, gates), Code::InvalidValue);
  EXPECT_EQ(code(3, 2, 0, ids, gates), Code::InvalidValue);
}

}  // namespace
}  // namespace waybill
