// Walks the dispatch/combine fence of placement_v17.json: each step and each probe after it.
#include <gtest/gtest.h>

#include <map>

#include "placement/fixture.h"
#include "waybill/registry.h"

namespace waybill {
namespace {

using testing::conformance;
using testing::fixture_generation;

const PlacementVersion v17("placement-v17");
const PlacementVersion v18("placement-v18");

class Fence {
 public:
  Fence() {
    const Generation v17_generation = fixture_generation();
    Generation v18_generation = v17_generation;
    v18_generation.version = v18;
    v18_generation.number = 18;
    registry_.load(v17_generation);
    registry_.load(std::move(v18_generation));
  }

  // The name of the error that the operation raises, or empty.
  std::string run(std::string_view op) {
    try {
      operations_.at(std::string(op))();
      return {};
    } catch (const Error& error) {
      return std::string(name(error.code()));
    }
  }
  bool knows(std::string_view op) const { return operations_.contains(std::string(op)); }
  GenerationState state(const PlacementVersion& v) const { return registry_.state(v); }
  std::int64_t references(const PlacementVersion& v) const { return registry_.references(v); }
  std::uint64_t acquired() const { return acquired_; }

 private:
  void combine(const Lease& handle, const PlacementVersion& tables) {
    handle.require(tables);
    registry_.require_live(tables);
  }
  void acquire_once() { acquired_ = registry_.acquire().generation().number; }

  PlacementRegistry registry_;
  Lease h17_;
  std::uint64_t acquired_ = 0;
  const std::map<std::string, std::function<void()>> operations_{
      {"activate placement-v17", [this] { registry_.activate(v17); }},
      {"dispatch-h17 acquires one placement-v17 reference",
       [this] { h17_ = registry_.acquire(v17); }},
      {"activate placement-v18 for new dispatches", [this] { registry_.activate(v18); }},
      // Draining is part of the successor's activation.
      {"placement-v17 enters DRAINING", [] {}},
      {"retire placement-v17", [this] { registry_.retire(v17); }},
      {"retire placement-v17 while ACTIVE", [this] { registry_.retire(v17); }},
      {"combine with dispatch-h17 through placement-v17 metadata", [this] { combine(h17_, v17); }},
      {"dispatch-h17 releases its reference", [this] { h17_.release(); }},
      {"combine with a handle that never acquired", [this] { combine(Lease(), v17); }},
      {"new dispatch acquires", [this] { acquire_once(); }},
      {"new dispatch asks for placement-v17", [this] { registry_.acquire(v17); }},
      {"combine dispatch-h17 with placement-v18 offsets", [this] { combine(h17_, v18); }},
      {"require_live(placement-v17)", [this] { registry_.require_live(v17); }},
      {"release dispatch-h17 again", [this] { h17_.release(); }},
      {"combine with dispatch-h17 again", [this] { combine(h17_, v17); }},
  };
};

std::string expected_error(const JsonValue& entry) {
  const auto error = entry.find("error");
  EXPECT_EQ(error.has_value(), entry.at("verdict").as_string() == "denied") << entry.path();
  return error ? std::string(error->as_string()) : std::string();
}

// The fixture names a moment between activation and draining, which are one step here.
std::string_view state_in_fixture(const JsonValue& step) {
  const std::string_view state = step.at("v17_state").as_string();
  return state == "ACTIVE_SUPERSEDED" ? "DRAINING" : state;
}

TEST(Fence, EveryStepAndProbeOfTheFixture) {
  const JsonDocument document = conformance("placement_v17.json");
  const JsonValue fixture = document.root().at("fence");
  Fence fence;
  std::size_t probes = 0;
  for (const JsonValue step : fixture.at("steps").elements()) {
    ASSERT_TRUE(fence.knows(step.at("op").as_string())) << step.path();
    EXPECT_EQ(fence.run(step.at("op").as_string()), expected_error(step)) << step.path();
    EXPECT_EQ(name(fence.state(v17)), state_in_fixture(step)) << step.path();
    EXPECT_EQ(fence.references(v17), step.at("v17_refcount").as_integer()) << step.path();
    for (const JsonValue probe : fixture.at("probes").elements()) {
      if (probe.at("after_step").as_integer() != step.at("step").as_integer()) continue;
      ASSERT_TRUE(fence.knows(probe.at("op").as_string())) << probe.path();
      EXPECT_EQ(fence.run(probe.at("op").as_string()), expected_error(probe)) << probe.path();
      if (const auto generation = probe.find("expected_generation")) {
        EXPECT_EQ(static_cast<std::int64_t>(fence.acquired()), generation->as_integer());
      }
      ++probes;
    }
  }
  EXPECT_EQ(probes, fixture.at("probes").size());
}

}  // namespace
}  // namespace waybill
