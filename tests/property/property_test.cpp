// The checker itself: what holds passes, what does not is found and shrunk.
#include "property/property.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <stdexcept>

namespace waybill::property {
namespace {

std::int64_t smallest_failing = 0;

TEST(Property, FailsWhereItDoesNotHoldAndShrinks) {
  ::testing::internal::CaptureStderr();
  const bool held = check("below 50", [] {
    const auto value = draw<std::int64_t>(0, 1000);
    if (value >= 50) {
      smallest_failing = value;
      fail(__FILE__, __LINE__, "value < 50");
    }
  });
  const std::string shown = ::testing::internal::GetCapturedStderr();
  EXPECT_FALSE(held);
  EXPECT_EQ(smallest_failing, 50);
  EXPECT_NE(shown.find("value < 50"), std::string::npos) << shown;
}

TEST(Property, FailsWhenTheBodyThrows) {
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(check("throws", [] { throw std::runtime_error("from the body"); }));
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("from the body"), std::string::npos);
}

std::array<int, 5> drawn{};
int high_bits = 0;

// 100 cases of 20 draws: each entry 400 times, give or take 18.
TEST(Property, DrawsEveryEntryAboutAsOften) {
  drawn = {};
  high_bits = 0;
  ASSERT_TRUE(check("spread", [] {
    for (int i = 0; i < 20; ++i) ++drawn[static_cast<std::size_t>(draw_one_of({0, 1, 2, 3, 4}))];
    if (draw_bits() >> 63U != 0) ++high_bits;
  }));
  for (const int times : drawn) {
    EXPECT_GT(times, 250);
    EXPECT_LT(times, 550);
  }
  EXPECT_GT(high_bits, 10) << "of 50, give or take 5";
}

PROPERTY(Property, DrawsStayInTheirRange) {
  const auto low = draw(-1000, 1000);
  const auto high = draw(low + 1, 1001);
  const auto value = draw(low, high);
  HOLDS(low <= value && value < high);
  for (const std::int32_t each : draw_integers<std::int32_t>(5, low, high)) {
    HOLDS(low <= each && each < high);
  }
  const auto chosen = draw_one_of({2, 3, 5});
  HOLDS(chosen == 2 || chosen == 3 || chosen == 5);
}

}  // namespace
}  // namespace waybill::property
