// Faults of buffer lifetimes and of the event graph, each as one change of a right step (0x03D5).
#include <gtest/gtest.h>

#include <limits>

#include "support/fault.h"
#include "waybill/ledger.h"

namespace waybill::testing {
namespace {

class Lifetimes : public ::testing::Test {
 protected:
  std::vector<Buffer> buffers_ = step_buffers({}, {}, {});
  std::vector<PhaseEvent> events_ = step_events();

  Buffer& buffer(std::string_view name) { return find(buffers_, name); }
  PhaseEvent& event(std::string_view name) { return find(events_, name); }
  Error violation() const {
    return fault([this] { live_ledger(buffers_, events_); });
  }

 private:
  template <class T>
  static T& find(std::vector<T>& list, std::string_view name) {
    for (T& item : list) {
      if (item.name == name) return item;
    }
    throw std::out_of_range(std::string(name));
  }
};

TEST_F(Lifetimes, AStepIsRight) { live_ledger(buffers_, events_); }

TEST_F(Lifetimes, SendPayloadOverwrittenAfterSubmission) {
  buffer("packed send payload").release = 2;
  EXPECT_EQ(violation().code(), Code::EarlyRelease);
  EXPECT_EQ(violation().coordinate("buffer"), "packed send payload");
}

TEST_F(Lifetimes, ReceiveFreedBeforeTheRepackIsDone) {
  buffer("source-major receive").release = 3;
  EXPECT_EQ(violation().code(), Code::EarlyRelease);
}

TEST_F(Lifetimes, ExpertOutputReusedWhileCombineIsInFlight) {
  buffer("expert output / return payload").release = 5;
  EXPECT_EQ(violation().code(), Code::EarlyRelease);
}

TEST_F(Lifetimes, HandleFreedBeforeItsLastReader) {
  buffer("immutable route handle").release = 7;
  EXPECT_EQ(violation().code(), Code::EarlyRelease);
}

TEST_F(Lifetimes, OutputFreedBeforeItsConsumer) {
  buffer("output hidden").release = 9;
  EXPECT_EQ(violation().code(), Code::EarlyRelease);
}

TEST_F(Lifetimes, ReleaseBeforeAlloc) {
  buffer("send metadata").release_needs = "";
  buffer("send metadata").release = 0;
  EXPECT_EQ(violation().code(), Code::EarlyRelease);
}

TEST_F(Lifetimes, DependencyEdgeDropped) {
  event("combine_complete").after.clear();
  EXPECT_EQ(violation().code(), Code::MissingDependency);
  EXPECT_EQ(violation().coordinate("event"), "combine_complete");
}

TEST_F(Lifetimes, DependencyThroughAnotherEventIsEnough) {
  events_.insert(events_.begin() + 5, {"stream_joined", "communication", {"expert_complete"}, 6});
  event("combine_complete").after = {"stream_joined"};
  live_ledger(buffers_, events_);
}

TEST_F(Lifetimes, UnknownEvents) {
  event("combine_complete").after = {"experts_done"};
  EXPECT_EQ(violation().code(), Code::MissingDependency);
  event("combine_complete").after = {"expert_complete"};
  buffer("send metadata").release_needs = "sent";
  EXPECT_EQ(violation().code(), Code::MissingDependency);
  EXPECT_EQ(violation().coordinate("buffer"), "send metadata");
}

TEST_F(Lifetimes, EventGraphWithACycle) {
  event("dispatch_complete").after.push_back("output_ready");
  EXPECT_EQ(violation().code(), Code::CyclicEventGraph);
  event("dispatch_complete").after = {"dispatch_packed", "dispatch_complete"};
  EXPECT_EQ(violation().code(), Code::CyclicEventGraph);
}

TEST_F(Lifetimes, EventBeforeItsDependency) {
  event("combine_complete").epoch = 4;
  EXPECT_EQ(violation().code(), Code::EpochBeforeDependency);
  EXPECT_EQ(violation().coordinate("after"), "expert_complete");
}

TEST_F(Lifetimes, EventThatStandsTwice) {
  events_.push_back(events_.front());
  EXPECT_EQ(violation().code(), Code::InvalidValue);
}

TEST_F(Lifetimes, TwoLiveBuffersOfOneAliasGroup) {
  buffer("returned source-order rows").alias_group = "expert_output_return_payload";
  EXPECT_EQ(violation().code(), Code::AliasOverlap);
  EXPECT_EQ(violation().coordinate("buffer"), "expert output / return payload");
  EXPECT_EQ(violation().coordinate("and"), "returned source-order rows");
}

TEST_F(Lifetimes, AliasMembersMayFollowEachOther) {
  buffer("packed send payload").alias_group = "expert_output_return_payload";
  live_ledger(buffers_, events_);
}

TEST_F(Lifetimes, ValuesThatNoStepHas) {
  const std::vector<Buffer> right = buffers_;
  buffers_[0].alloc = -1;
  EXPECT_EQ(violation().code(), Code::InvalidValue);
  buffers_ = right;
  buffers_[0].release = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(violation().code(), Code::InvalidValue);
  buffers_ = right;
  buffers_[0].bytes = LiveBytes{-1};
  EXPECT_EQ(violation().code(), Code::InvalidValue);
  buffers_ = right;
  buffers_[0].bytes = buffers_[1].bytes = LiveBytes{std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(violation().code(), Code::InvalidValue);
}

TEST(LiveLedger, NothingIsLiveWithoutBuffers) {
  const LiveLedger ledger = live_ledger({});
  EXPECT_EQ(ledger.peak.value, 0);
  EXPECT_TRUE(ledger.peak_members.empty());
}

}  // namespace
}  // namespace waybill::testing
