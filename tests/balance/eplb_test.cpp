#include "waybill/eplb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "balance/gzip_json.h"
#include "placement/balance/eplb_sort.h"
#include "support/fault.h"

namespace waybill {
namespace {

using ::testing::ElementsAre;
using testing::fault;
using testing::flat;
using ::testing::HasSubstr;
using testing::read_recorded;

std::int32_t count(JsonValue at, std::string_view key) {
  return static_cast<std::int32_t>(at.at(key).as_integer(1, 1 << 20));
}

EplbShape shape_of(JsonValue request) {
  return {.replicas = count(request, "num_replicas"),
          .groups = count(request, "num_groups"),
          .nodes = count(request, "num_nodes"),
          .gpus = count(request, "num_gpus")};
}

std::vector<std::string> recorded_plans() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(WAYBILL_TEST_DATA "/eplb")) {
    const std::string name = entry.path().filename();
    if (name.front() == 'c') names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

class RecordedPlan : public ::testing::TestWithParam<std::string> {};

TEST_P(RecordedPlan, IsEqualInAllArrays) {
  const JsonDocument document = read_recorded("eplb/" + GetParam());
  const JsonValue recorded = document.root(), expect = recorded.at("expect");
  const auto weight = flat<float>(recorded.at("weight"));
  const auto layers = static_cast<std::int32_t>(recorded.at("weight").size());
  const EplbPlan plan =
      eplb(weight, layers, static_cast<std::int32_t>(weight.size()) / layers, shape_of(recorded));
  EXPECT_EQ(plan.phy2log, flat<std::int32_t>(expect.at("phy2log")));
  EXPECT_EQ(plan.log2phy, flat<std::int32_t>(expect.at("log2phy")));
  EXPECT_EQ(plan.logcnt, flat<std::int32_t>(expect.at("logcnt")));
}

INSTANTIATE_TEST_SUITE_P(Eplb, RecordedPlan, ::testing::ValuesIn(recorded_plans()),
                         [](const auto& plan) {
                           return plan.param.substr(0, plan.param.find('.'));
                         });

TEST(Eplb, AcceptsAndRejectsTheRecordedShapes) {
  const JsonDocument document = read_recorded("eplb/shapes.json");
  for (JsonValue request : document.root().at("cases").elements()) {
    const std::int32_t experts = count(request, "num_logical_experts");
    SCOPED_TRACE(request.at("name").as_string());
    if (request.at("outcome").as_string() == "accepted") {
      EXPECT_NO_THROW(check_eplb_shape(experts, shape_of(request)));
    } else {
      EXPECT_THROW(check_eplb_shape(experts, shape_of(request)), Error);
    }
  }
}

TEST(Eplb, RefusalsNameTheNearestValidSetting) {
  const Error slots = fault([] { check_eplb_shape(16, {.replicas = 18, .gpus = 4}); });
  EXPECT_EQ(slots.code(), Code::DivisibilityMismatch);
  EXPECT_THAT(slots.what(), HasSubstr("found 18"));
  EXPECT_THAT(slots.what(), HasSubstr("multiple of the 4 GPUs, nearest 16 or 20"));

  const Error experts =
      fault([] { check_eplb_shape(10, {.replicas = 16, .groups = 4, .nodes = 2, .gpus = 8}); });
  EXPECT_THAT(experts.what(), HasSubstr("multiple of the 4 groups, nearest 8 or 12"));

  const Error few = fault([] { check_eplb_shape(12, {.replicas = 8, .gpus = 8}); });
  EXPECT_EQ(few.code(), Code::ReplicaCardinalityZero);
  EXPECT_THAT(few.what(), HasSubstr("at least 16 slots on 8 GPUs"));
}

TEST(Eplb, RejectsLoadsThatAreNoLoads) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (float bad : {nan, infinity, -1.0F}) {
    const std::vector<float> weight{1, 2, 3, 4, 5, 6, 7, bad};
    const Error error = fault([&] { eplb(weight, 2, 4, {.replicas = 4, .gpus = 2}); });
    EXPECT_EQ(error.code(), Code::InvalidValue);
    EXPECT_EQ(error.coordinate("layer"), "1");
    EXPECT_EQ(error.coordinate("expert"), "3");
  }
}

TEST(Eplb, WarnsOfIgnoredGroupsAndOfLayersWithoutLoad) {
  const std::vector<float> weight{1, 2, 3, 4, 0, 0, 0, 0};
  const EplbPlan plan = eplb(weight, 2, 4, {.replicas = 4, .groups = 3, .nodes = 2, .gpus = 2});
  EXPECT_THAT(plan.warnings,
              ElementsAre(HasSubstr("3 groups don't divide over 2 nodes"), HasSubstr("layer 1")));
}

TEST(Eplb, RefusesLoadsOfAnotherShape) {
  const std::vector<float> weight(7, 1.0F);
  EXPECT_EQ(fault([&] { eplb(weight, 2, 4, {.replicas = 4}); }).code(), Code::ShapeMismatch);
}

// Equal keys land where the recorded build put them.
TEST(EplbSort, LeavesSeventeenEqualKeysInTheRecordedOrder) {
  std::vector<KeyedIndex> items;
  for (std::int32_t i = 0; i < 17; ++i) items.push_back({1.0F, i});
  eplb_sort(items);
  std::vector<std::int32_t> order;
  for (const KeyedIndex& item : items) order.push_back(item.index);
  EXPECT_THAT(order, ElementsAre(8, 16, 15, 14, 13, 12, 11, 10, 9, 0, 7, 6, 5, 4, 3, 2, 1));
}

TEST(EplbSort, SortsAnyRowDescending) {
  std::mt19937 rng(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<KeyedIndex> items(rng() % 600);
    const auto distinct = 1 + rng() % 300;
    for (std::size_t i = 0; i < items.size(); ++i) {
      items[i] = {static_cast<float>(rng() % distinct), static_cast<std::int32_t>(i)};
    }
    std::vector<float> keys;
    for (const KeyedIndex& item : items) keys.push_back(item.key);
    std::ranges::sort(keys, std::greater<>());
    eplb_sort(items);
    for (std::size_t i = 0; i < items.size(); ++i) ASSERT_EQ(items[i].key, keys[i]);
  }
}

}  // namespace
}  // namespace waybill
