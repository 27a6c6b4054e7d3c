#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "io/json_document.h"
#include "property/property.h"
#include "support/fault.h"
#include "waybill/digest.h"
#include "waybill/routes.h"

namespace waybill {
namespace {

using testing::fault;

JsonDocument conformance(const std::string& file) {
  return JsonDocument::read(std::string(WAYBILL_TEST_DATA) + "/conformance/" + file);
}

// Owned columns that a test may change.
struct Columns {
  std::int32_t tokens = 3, topk = 2;
  std::vector<std::int32_t> experts{0, 3, 2, -1, 1, 1};
  std::vector<float> gates{0.65F, 0.35F, 0.7F, 0.0F, 0.58F, 0.42F};

  RoutesView view() const { return {tokens, topk, experts, gates}; }
  std::string digest() const { return semantic_digest("scope-0", Rank{1}, view()); }
};

// The value was computed from the documented encoding by another program.
TEST(SemanticDigest, IsFrozen) {
  EXPECT_EQ(Columns().digest(), "044afda324017cf6ccd2e5e93c05c5e1e13e203c97605bd5cfdb7f99c548d90c");
}

// The fixture encodes the tuple as text; the positions that ours leaves implicit are checked by it.
TEST(SemanticDigest, FixtureEncodingFromOurColumns) {
  const JsonDocument routes = conformance("routes.json");
  std::vector<std::int32_t> ids[2];
  std::vector<float> gates[2];
  for (const JsonValue route : routes.root().at("routes").elements()) {
    const auto partition = static_cast<std::size_t>(route.at("partition").as_integer());
    ids[partition].push_back(static_cast<std::int32_t>(route.at("logical_expert").as_integer()));
    gates[partition].push_back(static_cast<float>(route.at("gate").as_number()));
  }
  std::string text;
  std::int32_t number = 0;
  for (std::size_t p = 0; p < 2; ++p) {
    const Routes columns(2, 2, 4, ids[p], gates[p]);
    const RoutesView view = columns.view();
    for (std::int32_t i = 0; i < view.size(); ++i) {
      const RouteId r{i};
      text += fmt::format("scope-0|r{:02}|{}|{}|{}|{}|{}\n", number++, p, view.token(r).value,
                          view.slot(r).value, view.expert(r).value,
                          std::lround(view.gates[r.index()] * 100));
    }
  }
  const JsonDocument identity = conformance("identity.json");
  const JsonValue expected = identity.root().at("semantic_digest");
  EXPECT_EQ(static_cast<std::int64_t>(text.size()), expected.at("bytes").as_integer());
  EXPECT_EQ(sha256_hex(text), expected.at("sha256").as_string());
}

TEST(SemanticDigest, EveryFieldEntersIt) {
  const std::string original = Columns().digest();
  Columns columns;
  columns.experts[4] = 0;
  EXPECT_NE(columns.digest(), original) << "expert";
  columns = {};
  columns.gates[5] = std::nextafter(columns.gates[5], 1.0F);
  EXPECT_NE(columns.digest(), original) << "last bit of a gate";
  columns = {};
  std::swap(columns.tokens, columns.topk);
  EXPECT_NE(columns.digest(), original) << "token and route slot";
  columns = {};
  EXPECT_NE(semantic_digest("scope-1", Rank{1}, columns.view()), original) << "scope";
  EXPECT_NE(semantic_digest("scope-0", Rank{0}, columns.view()), original) << "origin";
}

TEST(SemanticDigest, GateOfADroppedRouteHasNoMeaning) {
  Columns columns;
  columns.gates[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(columns.digest(), Columns().digest());
}

TEST(SemanticDigest, MutationAfterFreezingIsFound) {
  Columns columns;
  const std::string frozen = columns.digest();
  check_semantic_digest("scope-0", Rank{1}, columns.view(), frozen);
  columns.experts[0] = 1;
  const Error error =
      fault([&] { check_semantic_digest("scope-0", Rank{1}, columns.view(), frozen); });
  EXPECT_EQ(error.code(), Code::SemanticDigestMismatch);
  EXPECT_EQ(error.coordinate("origin_rank"), "1");
}

// Blocks of the streaming encoder must not show: any single change is found at any length.
PROPERTY(SemanticDigestProperty, OneChangedRouteChangesIt) {
  Columns columns;
  columns.tokens = property::draw(1, 3000);
  columns.topk = 1;
  const auto size = static_cast<std::size_t>(columns.tokens);
  columns.experts.assign(size, 7);
  columns.gates.assign(size, 0.25F);
  const std::string original = columns.digest();
  const auto position = property::draw<std::size_t>(0, size);
  columns.experts[position] = 8;
  HOLDS(columns.digest() != original);
  columns.experts[position] = 7;
  columns.gates[position] = -0.25F;
  HOLDS(columns.digest() != original);
}

}  // namespace
}  // namespace waybill
