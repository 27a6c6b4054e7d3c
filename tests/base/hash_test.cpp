#include "waybill/hash.h"

#include <gtest/gtest.h>

#include <string_view>

namespace waybill {
namespace {

std::uint64_t fnv1a(std::string_view text) {
  return Fnv1a().add(std::as_bytes(std::span(text))).value();
}

// The vectors that the algorithms' authors publish.
TEST(Hash, Fnv1aGivesThePublishedValues) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325U);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8U);
}

TEST(Hash, Fnv1aOfPiecesIsThatOfTheWhole) {
  const std::string_view text = "foobar";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const auto bytes = std::as_bytes(std::span(text));
    EXPECT_EQ(Fnv1a().add(bytes.first(cut)).add(bytes.subspan(cut)).value(), fnv1a(text));
  }
}

TEST(Hash, SplitMix64GivesThePublishedSequence) {
  EXPECT_EQ(splitmix64(1234567), 6457827717110365317U);
  EXPECT_EQ(splitmix64(1234567 + splitmix64_step), 3203168211198807973U);
  EXPECT_EQ(splitmix64(1234567 + 2 * splitmix64_step), 9817491932198370423U);
}

}  // namespace
}  // namespace waybill
