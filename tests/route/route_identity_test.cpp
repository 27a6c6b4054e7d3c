#include <gtest/gtest.h>

#include <vector>

#include "support/fault.h"
#include "waybill/routes.h"

namespace waybill {
namespace {

using testing::fault;

std::vector<RouteIdentity> two_ranks_of_two_tokens() {
  std::vector<RouteIdentity> rows;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    for (std::int32_t token = 0; token < 2; ++token) {
      for (std::int32_t slot = 0; slot < 2; ++slot) {
        rows.push_back({Rank{rank}, TokenRow{token}, RouteSlot{slot}});
      }
    }
  }
  return rows;
}

TEST(RouteIdentities, TheWholeIdentityTellsRowsApart) {
  EXPECT_NO_THROW(check_route_identities(two_ranks_of_two_tokens()));
  EXPECT_NO_THROW(check_route_identities({}));
}

TEST(RouteIdentities, WithoutTheRouteSlotATokensRowsMeet) {
  std::vector<RouteIdentity> rows = two_ranks_of_two_tokens();
  for (RouteIdentity& row : rows) row.slot = RouteSlot{0};
  const Error error = fault([&] { check_route_identities(rows); });
  EXPECT_EQ(error.code(), Code::RouteIdentityCollision);
  EXPECT_EQ(error.found_text(), "rows 0 and 1");
}

TEST(RouteIdentities, WithoutTheOriginRankEqualTokensOfTwoRanksMeet) {
  std::vector<RouteIdentity> rows = two_ranks_of_two_tokens();
  for (RouteIdentity& row : rows) row.origin = Rank{0};
  const Error error = fault([&] { check_route_identities(rows); });
  EXPECT_EQ(error.code(), Code::RouteIdentityCollision);
  EXPECT_EQ(error.found_text(), "rows 0 and 4");
  EXPECT_EQ(error.coordinate("token"), "0");
}

}  // namespace
}  // namespace waybill
