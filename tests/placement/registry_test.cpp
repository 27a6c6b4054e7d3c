#include "waybill/registry.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#include "base/stream_state.h"
#include "support/fault.h"

namespace waybill {
namespace {

using testing::fault;

const PlacementVersion v1("v1");
const PlacementVersion v2("v2");

Generation generation_of(const PlacementVersion& version) {
  Generation generation;
  generation.version = version;
  generation.layers.emplace(
      LayerId{0}, std::make_shared<const Placement>(Placement::contiguous(version, 4, 2)));
  return generation;
}

// v1 is ACTIVE, v2 LOADED.
class Registry : public ::testing::Test {
 protected:
  Registry() {
    registry.load(generation_of(v1));
    registry.activate(v1);
    registry.load(generation_of(v2));
  }
  PlacementRegistry registry;
};

// An event that can't say whether it has happened.
class Unanswering final : public Event::State {
 public:
  explicit Unanswering(void (*fail)()) : fail_(fail) {}
  bool ready() override {
    fail_();
    return false;
  }
  void wait() override { fail_(); }

 private:
  void (*const fail_)();
};

// Holds back a worker stream until opened.
class Gate {
 public:
  void open() {
    {
      std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST(EmptyRegistry, ServesNothing) {
  PlacementRegistry registry;
  EXPECT_EQ(fault([&] { registry.acquire(); }).code(), Code::NoServingGeneration);
  registry.load(generation_of(v1));
  EXPECT_EQ(fault([&] { registry.acquire(); }).code(), Code::NoServingGeneration);
  EXPECT_EQ(registry.state(v1), GenerationState::loaded);
}

TEST_F(Registry, VersionIsNeverReused) {
  EXPECT_EQ(fault([&] { registry.load(generation_of(v1)); }).code(), Code::PlacementReused);
  registry.activate(v2);
  registry.retire(v1);
  const Error error = fault([&] { registry.load(generation_of(v1)); });
  EXPECT_EQ(error.code(), Code::PlacementReused);
  EXPECT_EQ(error.coordinate("placement"), "v1");
}

TEST_F(Registry, ActivationDrainsThePredecessorInTheSameStep) {
  registry.activate(v2);
  EXPECT_EQ(registry.state(v1), GenerationState::draining);
  EXPECT_EQ(registry.state(v2), GenerationState::active);
  EXPECT_EQ(registry.acquire().generation().version, v2);
}

TEST_F(Registry, TransitionsOutsideTheStateMachineAreRefused) {
  const auto activate = [&](const PlacementVersion& v) {
    return fault([&] { registry.activate(v); }).code();
  };
  const auto retire = [&](const PlacementVersion& v) {
    return fault([&] { registry.retire(v); }).code();
  };
  EXPECT_EQ(retire(v1), Code::IllegalGenerationTransition) << "ACTIVE";
  EXPECT_EQ(retire(v2), Code::IllegalGenerationTransition) << "LOADED";
  EXPECT_EQ(activate(v1), Code::IllegalGenerationTransition) << "ACTIVE";
  registry.activate(v2);
  EXPECT_EQ(activate(v1), Code::IllegalGenerationTransition) << "DRAINING";
  registry.retire(v1);
  EXPECT_EQ(activate(v1), Code::IllegalGenerationTransition) << "RETIRED";
  EXPECT_EQ(retire(v1), Code::IllegalGenerationTransition) << "RETIRED";
  const PlacementVersion unknown("v9");
  EXPECT_EQ(activate(unknown), Code::IllegalGenerationTransition);
  EXPECT_EQ(retire(unknown), Code::IllegalGenerationTransition);
  EXPECT_EQ(fault([&] { registry.acquire(unknown); }).code(), Code::GenerationNotActive);
  EXPECT_EQ(fault([&] { registry.require_live(unknown); }).code(), Code::GenerationNotLive);
  EXPECT_EQ(fault([&] { (void)registry.state(unknown); }).code(), Code::InvalidValue);
  EXPECT_EQ(fault([&] { (void)registry.references(unknown); }).code(), Code::InvalidValue);
}

TEST_F(Registry, RollsBackToALoadedStandby) {
  const PlacementVersion standby("v0-standby");
  registry.load(generation_of(standby));
  registry.activate(v2);
  registry.activate(standby);
  EXPECT_EQ(registry.acquire().generation().version, standby);
}

TEST_F(Registry, LiveReferenceForbidsRetiringAndCountsIt) {
  Lease first = registry.acquire();
  Lease second = registry.acquire(v1);
  registry.activate(v2);
  const Error error = fault([&] { registry.retire(v1); });
  EXPECT_EQ(error.code(), Code::RetireWithLiveReferences);
  EXPECT_EQ(error.found_text(), "2");
  first.release();
  second = Lease();
  EXPECT_EQ(registry.references(v1), 0);
  registry.retire(v1);
  EXPECT_EQ(registry.state(v1), GenerationState::retired);
}

TEST_F(Registry, DrainingTakesNoNewDispatchButStaysLive) {
  const Lease lease = registry.acquire();
  registry.activate(v2);
  EXPECT_EQ(fault([&] { registry.acquire(v1); }).code(), Code::GenerationNotActive);
  registry.require_live(v1);
  EXPECT_EQ(lease.generation().version, v1);
}

TEST_F(Registry, LeaseMovesItsReference) {
  Lease lease = registry.acquire();
  Lease moved = std::move(lease);
  EXPECT_EQ(registry.references(v1), 1);
  moved = registry.acquire();
  EXPECT_EQ(registry.references(v1), 1);
}

TEST_F(Registry, EmptyLeaseSaysWhyItIsEmpty) {
  Lease never;
  EXPECT_EQ(fault([&] { (void)never.generation(); }).code(), Code::HandleNotAcquired);
  EXPECT_EQ(fault([&] { never.release(); }).code(), Code::HandleNotAcquired);
  Lease released = registry.acquire();
  released.release();
  EXPECT_FALSE(released);
  EXPECT_EQ(fault([&] { (void)released.generation(); }).code(), Code::HandleReleased);
  EXPECT_EQ(fault([&] { released.release(); }).code(), Code::HandleReleasedTwice);
  EXPECT_EQ(fault([&] { released.release_after(Event()); }).code(), Code::HandleReleasedTwice);
}

TEST_F(Registry, LeaseRefusesTablesOfAnotherGeneration) {
  const Lease lease = registry.acquire();
  lease.require(v1);
  const Error error = fault([&] { lease.require(v2); });
  EXPECT_EQ(error.code(), Code::GenerationMismatch);
  EXPECT_EQ(error.found_text(), "v2");
}

TEST_F(Registry, ReleaseAfterAnEventWaitsForItWithoutBlocking) {
  Gate gate;
  const Stream stream = Stream::cpu_worker();
  stream.submit([&] { gate.wait(); });
  const Event event = stream.record();

  Lease lease = registry.acquire();
  lease.release_after(event);
  EXPECT_FALSE(lease);
  EXPECT_EQ(registry.references(v1), 1);
  registry.activate(v2);
  EXPECT_EQ(fault([&] { registry.retire(v1); }).code(), Code::RetireWithLiveReferences);

  gate.open();
  event.wait();
  EXPECT_EQ(registry.references(v1), 0);
  registry.retire(v1);
}

TEST_F(Registry, EventOfFailedWorkStillGivesTheReferenceBack) {
  const Stream stream = Stream::cpu_worker();
  stream.submit([] { throw std::runtime_error("fault"); });
  const Event event = stream.record();
  registry.acquire().release_after(event);
  EXPECT_THROW(event.wait(), std::runtime_error);
  EXPECT_EQ(registry.references(v1), 0);
}

TEST_F(Registry, AFaultOfTheDeviceCountsAsPastAndNothingElseDoes) {
  const auto references_after = [&](void (*fail)()) {
    registry.acquire().release_after(Event(std::make_shared<Unanswering>(fail)));
    return registry.references(v1);
  };
  EXPECT_EQ(references_after([] { throw Error(Code::DeviceFault); }), 0);
  EXPECT_EQ(references_after([] { throw std::bad_alloc(); }), 1);
  EXPECT_EQ(references_after([] { throw 42; }), 2);
}

TEST(LeaseLifetime, LeaseOutlivesItsRegistry) {
  Lease lease;
  {
    PlacementRegistry registry;
    registry.load(generation_of(v1));
    registry.activate(v1);
    lease = registry.acquire();
  }
  EXPECT_EQ(lease.generation().layer(LayerId{0}).experts(), 4);
  lease.release();
}

// Steps on several threads while generations change under them: every lease sees one whole
// generation, and none retires while it is held.
TEST(RegistryThreads, LeasesHoldThroughActivationsAndRetirements) {
  constexpr int workers = 4, generations = 40;
  const auto version = [](int g) { return PlacementVersion(fmt::format("v{}", g)); };
  PlacementRegistry registry;
  registry.load(generation_of(version(0)));
  registry.activate(version(0));

  std::atomic<bool> done = false;
  std::vector<std::jthread> threads;
  for (int w = 0; w < workers; ++w) {
    threads.emplace_back([&] {
      const Stream stream = Stream::cpu_worker();
      while (!done) {
        Lease lease = registry.acquire();
        const PlacementVersion pinned = lease.generation().version;
        registry.require_live(pinned);
        EXPECT_EQ(lease.generation().layer(LayerId{0}).version(), pinned);
        stream.submit([] {});
        lease.release_after(stream.record());
      }
      stream.synchronize();
    });
  }
  for (int g = 1; g < generations; ++g) {
    registry.load(generation_of(version(g)));
    registry.activate(version(g));
    while (registry.state(version(g - 1)) != GenerationState::retired) {
      try {
        registry.retire(version(g - 1));
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), Code::RetireWithLiveReferences);
        std::this_thread::yield();
      }
    }
  }
  done = true;
  threads.clear();
  EXPECT_EQ(registry.references(version(generations - 1)), 0);
}

}  // namespace
}  // namespace waybill
