// The eight-route fixture of the reference text end to end, and its two-rank trace.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "exec/layer_case.h"
#include "io/json_document.h"

namespace waybill {
namespace {

using testing::LayerCase;
using testing::LayerRun;

// routes.json and placement_v17.json as a case. Gates are the fixture's hundredths, so that every
// sum is an exact integer in FP32.
struct Fixture {
  LayerCase layer_case;
  std::vector<float> expected;  // [T, d] hundredths
};

JsonDocument read(const std::string& file) {
  return JsonDocument::read(std::string(WAYBILL_TEST_DATA) + "/conformance/" + file);
}

float number(const JsonValue& value) { return static_cast<float>(value.as_number()); }

std::vector<Slot> manifest_slots(const JsonValue& manifest) {
  std::vector<Slot> slots;
  for (const JsonValue& row : manifest.at("slots").elements()) {
    Slot slot;
    slot.name = row.at("id").as_string();
    slot.replica = row.at("replica").as_string();
    slot.expert = ExpertId{static_cast<std::int32_t>(row.at("logical_expert").as_integer())};
    slot.rank = Rank{static_cast<std::int32_t>(row.at("rank").as_integer())};
    slot.checkpoint = CheckpointVersion(std::string(row.at("checkpoint").as_string()));
    slots.push_back(slot);
  }
  return slots;
}

std::shared_ptr<const Placement> placement_of(std::vector<Slot> slots, std::int32_t experts,
                                              std::int32_t ranks) {
  return std::make_shared<const Placement>(PlacementVersion("placement-v17"), experts, ranks,
                                           std::move(slots));
}

Fixture read_fixture() {
  const JsonDocument routes = read("routes.json"), placement = read("placement_v17.json");
  const JsonValue shape = routes.root().at("shape");
  const auto extent = [&](const char* field) {
    return static_cast<std::int32_t>(shape.at(field).as_integer());
  };
  Fixture fixture;
  LayerCase& c = fixture.layer_case;
  c.options.hidden = extent("d");
  c.options.experts = extent("E");
  c.options.topk = extent("k");
  c.options.selector = Selector::round_robin;
  c.options.checks = Checks::full;
  c.topology = Topology::uniform(extent("P"), 2);
  c.placement = placement_of(manifest_slots(placement.root()), extent("E"), extent("P"));
  for (const JsonValue& n : shape.at("tokens_per_rank").elements()) {
    c.tokens_per_rank.push_back(static_cast<std::int32_t>(n.as_integer()));
  }
  for (const JsonValue& route : routes.root().at("routes").elements()) {
    c.experts.push_back(static_cast<std::int32_t>(route.at("logical_expert").as_integer()));
    c.gates.push_back(number(route.at("gate_hundredths")));
  }
  for (const JsonValue& token : routes.root().at("hidden").elements()) {
    for (const JsonValue& x : token.at("row").elements()) c.hidden.push_back(number(x));
  }
  std::vector<float> scales;
  for (const JsonValue& expert : routes.root().at("experts").elements()) {
    scales.push_back(number(expert.at("scale")));
  }
  c.source = testing::scaling_experts(scales, c.options.hidden, c.options.dtype);
  c.runner = testing::make_scaling_runner;
  for (const JsonValue& token : routes.root().at("outputs").elements()) {
    for (const JsonValue& y : token.at("row_hundredths").elements()) {
      fixture.expected.push_back(number(y));
    }
  }
  return fixture;
}

ProcessGroup group_of(std::vector<std::int32_t> peer_order) {
  std::vector<Rank> order;
  for (const std::int32_t rank : peer_order) order.emplace_back(rank);
  return {ProcessGroupId("ep-group-0"), GroupEpoch{7}, order};
}

std::vector<std::int64_t> values(const std::vector<Rows>& rows) {
  std::vector<std::int64_t> result;
  for (const Rows row : rows) result.push_back(row.value);
  return result;
}

class ReferenceFixture
    : public ::testing::TestWithParam<std::tuple<std::vector<std::int32_t>, bool>> {};

TEST_P(ReferenceFixture, OutputsAreExactForBothPeerOrders) {
  const auto& [peer_order, dedup] = GetParam();
  Fixture fixture = read_fixture();
  fixture.layer_case.group = group_of(peer_order);
  fixture.layer_case.options.dedup = dedup;
  const LayerRun run = testing::run(fixture.layer_case);
  EXPECT_EQ(run.output, fixture.expected);

  using Counts = std::vector<std::int64_t>;
  EXPECT_EQ(values(run.reports[0].slot_rows), (Counts{2}));
  EXPECT_EQ(values(run.reports[1].slot_rows), (Counts{2, 1}));
  EXPECT_EQ(values(run.reports[2].slot_rows), (Counts{1, 1}));
  EXPECT_EQ(values(run.reports[3].slot_rows), (Counts{1}));
  const bool identity = peer_order.front() == 0;
  EXPECT_EQ(values(run.reports[0].sent), identity ? (Counts{1, 2, 1, 0}) : (Counts{1, 1, 0, 2}));
  EXPECT_EQ(values(run.reports[1].sent), (Counts{1, 1, 1, 1}));
  EXPECT_EQ(run.reports[3].tokens, 0);
}

INSTANTIATE_TEST_SUITE_P(PeerOrders, ReferenceFixture,
                         ::testing::Combine(::testing::Values(std::vector<std::int32_t>{0, 1, 2, 3},
                                                              std::vector<std::int32_t>{2, 0, 3,
                                                                                        1}),
                                            ::testing::Bool()));

// All routes of expert 0 meet in one slot, whose rows then keep the order of their routes; slot q0
// stays empty.
TEST(ReferenceFixtureTies, OneReplicaTakesAllRowsAndOutputsStay) {
  Fixture fixture = read_fixture();
  LayerCase& c = fixture.layer_case;
  const JsonDocument placement = read("placement_v17.json");
  std::vector<Slot> slots = manifest_slots(placement.root());
  std::swap(slots[0], slots[1]);
  c.placement = placement_of(slots, c.options.experts, 4);
  c.options.selector = Selector::first;
  for (const bool dedup : {false, true}) {
    c.options.dedup = dedup;
    for (const auto& order : {std::vector<std::int32_t>{0, 1, 2, 3}, {2, 0, 3, 1}}) {
      c.group = group_of(order);
      const LayerRun run = testing::run(c);
      EXPECT_EQ(run.output, fixture.expected);
      EXPECT_EQ(values(run.reports[0].slot_rows), (std::vector<std::int64_t>{0}));
      EXPECT_EQ(run.reports[1].slot_rows[0].value, 4);
    }
  }
}

TEST(ReferenceFixtureGates, DecimalGatesGiveTheStatedRowsToWithinRounding) {
  Fixture fixture = read_fixture();
  LayerCase& c = fixture.layer_case;
  c.group = group_of({2, 0, 3, 1});
  for (float& gate : c.gates) gate /= 100.0F;
  const LayerRun run = testing::run(c);
  for (std::size_t i = 0; i < run.output.size(); ++i) {
    EXPECT_NEAR(run.output[i], fixture.expected[i] / 100, std::abs(fixture.expected[i]) * 1e-8);
  }
}

// Rank 0 token 0 meets rank 1 token 0 wherever a row is keyed by less than (origin, token, slot).
TEST(TwoRankTrace, EveryRowComesBackToItsOriginTokenAndSlot) {
  for (const bool dedup : {false, true}) {
    for (const auto& order : {std::vector<std::int32_t>{0, 1}, {1, 0}}) {
      LayerCase c;
      c.options.hidden = 1;
      c.options.experts = 2;
      c.options.topk = 2;
      c.options.checks = Checks::full;
      c.options.dedup = dedup;
      c.group = group_of(order);
      c.topology = Topology::uniform(2);
      c.placement =
          std::make_shared<const Placement>(Placement::contiguous(PlacementVersion("two"), 2, 2));
      c.tokens_per_rank = {2, 2};
      c.experts = {0, 1, 1, 0, 1, 0, 1, 0};
      c.gates = {60, 40, 60, 40, 60, 40, 60, 40};  // percent
      c.hidden = {1, 10, 100, 1000};
      c.source = testing::scaling_experts({1, 2}, 1, DType::f32);
      c.runner = testing::make_scaling_runner;
      EXPECT_EQ(testing::run(c).output, (std::vector<float>{140, 1600, 16000, 160000}));
    }
  }
}

}  // namespace
}  // namespace waybill
