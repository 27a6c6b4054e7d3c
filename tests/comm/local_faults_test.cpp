// What every rank sees when one of them fails, leaves, is late, or calls something else.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <latch>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/fault.h"
#include "waybill/comm.h"

namespace waybill {
namespace {

using Body = std::function<void(Communicator&)>;

// Runs `body` on every rank and returns the error of each; none where it returned. Unless a test is
// about time-outs, only an abort can release a rank that waits.
std::vector<std::optional<Error>> errors_of(const ProcessGroup& group, const Body& body,
                                            CommOptions options = {std::chrono::hours(24)}) {
  std::vector<std::optional<Error>> errors(static_cast<std::size_t>(group.size()));
  LocalGroup local(group, options);
  try {
    local.run([&](Communicator& comm) {
      try {
        body(comm);
      } catch (const Error& error) {
        errors[comm.rank().index()] = error;
        throw;
      }
    });
  } catch (const std::exception&) {  // each rank's own error is what the tests look at
  }
  return errors;
}

ProcessGroup peer_order(std::vector<std::int32_t> order) {
  std::vector<Rank> ranks;
  for (const std::int32_t rank : order) ranks.emplace_back(rank);
  return ProcessGroup(ProcessGroupId("group"), GroupEpoch{1}, std::move(ranks));
}

// An exchange of `bytes` between every pair; `spoil` may change this rank's sizes.
void exchange(Communicator& comm, std::int64_t bytes, std::string_view phase = "dispatch",
              const std::function<void(std::vector<std::int64_t>& send)>& spoil = {}) {
  const auto peers = static_cast<std::size_t>(comm.size());
  std::vector<std::int64_t> recv_offsets(peers + 1), send_offsets;
  for (std::size_t p = 0; p <= peers; ++p) recv_offsets[p] = static_cast<std::int64_t>(p) * bytes;
  send_offsets = recv_offsets;
  if (spoil) spoil(send_offsets);
  const std::vector<std::byte> send(static_cast<std::size_t>(send_offsets.back()));
  std::vector<std::byte> recv(static_cast<std::size_t>(recv_offsets.back()));
  comm.all_to_all_v({phase, send.data(), send_offsets, recv.data(), recv_offsets}).wait();
}

constexpr std::int64_t kSmall = 8, kLarge = 100'000;  // copied at submission, and not

TEST(LocalFaults, ThrowBetweenPhasesAbortsAllPeers) {
  const auto errors = errors_of(peer_order({2, 0, 3, 1}), [](Communicator& comm) {
    exchange(comm, kSmall, "counts");
    if (comm.rank() == Rank{3}) throw Error(Code::ShapeMismatch).at("tensor", "hidden");
    exchange(comm, kLarge);
  });
  EXPECT_EQ(errors[3]->code(), Code::ShapeMismatch);
  for (const std::size_t rank : {0U, 1U, 2U}) {
    ASSERT_TRUE(errors[rank]);
    EXPECT_EQ(errors[rank]->code(), Code::PeerAborted);
    EXPECT_EQ(errors[rank]->coordinate("rank"), "3");
    EXPECT_EQ(errors[rank]->coordinate("cause"), "ShapeMismatch");
    EXPECT_EQ(errors[rank]->coordinate("phase"), "counts");
  }
}

TEST(LocalFaults, RunRethrowsTheFirstCauseNotItsConsequences) {
  LocalGroup group(ProcessGroup::identity(4));
  try {
    group.run([](Communicator& comm) {
      if (comm.rank() == Rank{2}) throw std::runtime_error("disk is full");
      exchange(comm, kSmall);
    });
    FAIL() << "run() returned";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "disk is full");
  }
}

TEST(LocalFaults, EarlyReturnOfOneRankEndsItsPeersWait) {
  for (const std::int64_t bytes : {kSmall, kLarge}) {
    const auto errors = errors_of(ProcessGroup::identity(3), [&](Communicator& comm) {
      if (comm.rank() == Rank{1}) return;
      exchange(comm, bytes);
    });
    EXPECT_FALSE(errors[1]);
    for (const std::size_t rank : {0U, 2U}) {
      ASSERT_TRUE(errors[rank]);
      EXPECT_EQ(errors[rank]->code(), Code::PeerAborted);
      EXPECT_EQ(errors[rank]->coordinate("rank"), "1");
    }
  }
}

TEST(LocalFaults, LeavingAfterTheLastExchangeIsNoFault) {
  for (int round = 0; round < 20; ++round) {
    const auto errors =
        errors_of(ProcessGroup::identity(4), [](Communicator& comm) { exchange(comm, kLarge); });
    for (const auto& error : errors) EXPECT_FALSE(error);
  }
}

TEST(LocalFaults, AbandonedCompletionAbortsThePeers) {
  const auto errors = errors_of(ProcessGroup::identity(3), [](Communicator& comm) {
    const std::vector<std::int64_t> offsets{0, kLarge, 2 * kLarge, 3 * kLarge};
    std::vector<std::byte> send(3 * kLarge), recv(3 * kLarge);
    Completion completion =
        comm.all_to_all_v({"dispatch", send.data(), offsets, recv.data(), offsets});
    if (comm.rank() != Rank{0}) completion.wait();
  });
  for (const std::size_t rank : {1U, 2U}) {
    ASSERT_TRUE(errors[rank]);
    EXPECT_EQ(errors[rank]->code(), Code::PeerAborted);
    EXPECT_EQ(errors[rank]->coordinate("rank"), "0");
  }
}

TEST(LocalFaults, ShortSegmentNamesReceiverSenderAndSizesOnEveryRank) {
  const auto errors = errors_of(peer_order({1, 2, 0}), [](Communicator& comm) {
    exchange(comm, kSmall, "dispatch", [&](std::vector<std::int64_t>& send) {
      if (comm.rank() == Rank{2}) send.back() -= 3;  // peer slot 2 is rank 0
    });
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::RecvSplitMismatch);
    EXPECT_EQ(error->coordinate("rank"), "0");
    EXPECT_EQ(error->coordinate("peer"), "2");
    EXPECT_EQ(error->expected_text(), "8 bytes");
    EXPECT_EQ(error->found_text(), "5 bytes");
  }
}

TEST(LocalFaults, OffsetsThatFallOrAreTooFewNameTheirSide) {
  LocalGroup group(ProcessGroup::identity(1));
  const auto comm = group.join(Rank{0});
  const std::vector<std::int64_t> good{0, 0}, falling{4, 0}, few{0};
  const auto error = [&](const std::vector<std::int64_t>& send,
                         const std::vector<std::int64_t>& recv) {
    return testing::fault([&] { comm->all_to_all_v({"dispatch", nullptr, send, nullptr, recv}); });
  };
  for (const auto& bad : {falling, few}) {
    EXPECT_EQ(error(bad, good).code(), Code::SendOffsetMismatch);
    EXPECT_EQ(error(bad, good).coordinate("field"), "send_offsets");
    EXPECT_EQ(error(good, bad).code(), Code::RecvSplitMismatch);
    EXPECT_EQ(error(good, bad).coordinate("field"), "recv_offsets");
  }
}

TEST(LocalFaults, GatheredSizesThatDifferAreRefusedOnEveryRank) {
  const auto errors = errors_of(ProcessGroup::identity(3), [](Communicator& comm) {
    const std::vector<std::byte> mine(comm.rank() == Rank{1} ? 12 : 16);
    std::vector<std::byte> all(mine.size() * 3);
    comm.all_gather("counts", mine, all);
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::PeerCountDisagreement);
  }
}

TEST(LocalFaults, DifferentPhasesNameBothPhasesAndRanksOnEveryRank) {
  const auto errors = errors_of(peer_order({2, 0, 1}), [](Communicator& comm) {
    exchange(comm, kSmall, comm.rank() == Rank{1} ? "return" : "dispatch");
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::AgreementMismatch);
    EXPECT_EQ(error->coordinate("rank"), "1");
    EXPECT_EQ(error->coordinate("other_rank"), "0");
    EXPECT_EQ(error->expected_text(), "all_to_all_v 'dispatch'");
    EXPECT_EQ(error->found_text(), "all_to_all_v 'return'");
  }
}

TEST(LocalFaults, DifferentCollectivesOfOnePhaseAreRefused) {
  const auto errors = errors_of(ProcessGroup::identity(2), [](Communicator& comm) {
    if (comm.rank() == Rank{0}) return exchange(comm, kSmall, "counts");
    comm.all_gather("counts", {}, {});
  });
  for (const auto& error : errors) EXPECT_EQ(error->code(), Code::AgreementMismatch);
}

TEST(LocalFaults, TimeoutNamesTheMissingRanksAndThePhase) {
  std::latch given_up(1);
  const auto errors = errors_of(ProcessGroup::identity(3),
                                [&](Communicator& comm) {
                                  if (comm.rank() != Rank{1}) {
                                    given_up.wait();
                                    return exchange(comm, kSmall, "counts");
                                  }
                                  try {
                                    exchange(comm, kSmall, "counts");
                                  } catch (const Error&) {
                                    given_up.count_down();
                                    throw;
                                  }
                                },
                                {std::chrono::milliseconds(20)});
  ASSERT_TRUE(errors[1]);
  EXPECT_EQ(errors[1]->code(), Code::PeerTimeout);
  EXPECT_EQ(errors[1]->coordinate("phase"), "counts");
  EXPECT_EQ(errors[1]->coordinate("missing_ranks"), "0 2");
  for (const std::size_t late : {0U, 2U}) {
    ASSERT_TRUE(errors[late]);
    EXPECT_EQ(errors[late]->code(), Code::PeerAborted);
    EXPECT_EQ(errors[late]->coordinate("cause"), "PeerTimeout");
  }
}

TEST(LocalFaults, AbortedGroupRefusesEveryLaterCall) {
  LocalGroup group(ProcessGroup::identity(2));
  const auto one = group.join(Rank{0}), other = group.join(Rank{1});
  one->abort(Error(Code::InvalidValue));
  one->abort(Error(Code::ShapeMismatch));
  for (int call = 0; call < 2; ++call) {
    try {
      other->all_gather("test", {}, {});
      FAIL() << "the call returned";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::PeerAborted);
      EXPECT_EQ(error.coordinate("cause"), "InvalidValue");
      EXPECT_EQ(error.coordinate("phase"), "none");
    }
  }
}

TEST(LocalFaults, ARankJoinsOnceAndOnlyAMemberJoins) {
  LocalGroup group(peer_order({1, 0}));
  const auto end = group.join(Rank{0});
  EXPECT_THROW(group.join(Rank{0}), Error);
  EXPECT_THROW(group.join(Rank{2}), Error);
}

TEST(LocalFaults, OffsetsOfTheWrongLengthAreRefusedBeforeAnythingIsSent) {
  LocalGroup group(ProcessGroup::identity(1));
  const auto end = group.join(Rank{0});
  const std::vector<std::int64_t> one{0}, falling{4, 0};
  EXPECT_THROW(end->all_to_all_v({"test", nullptr, one, nullptr, one}), Error);
  EXPECT_THROW(end->all_to_all_v({"test", nullptr, falling, nullptr, falling}), Error);
}

}  // namespace
}  // namespace waybill
