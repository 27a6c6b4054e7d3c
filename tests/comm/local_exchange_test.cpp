// Exchanges between the ranks of one process against a direct evaluation.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "property/property.h"
#include "support/random_placement.h"
#include "waybill/comm.h"

namespace waybill {
namespace {

ProcessGroup random_group(std::int32_t ranks) {
  std::mt19937_64 rng(property::draw_bits());
  return testing::random_group(ranks, rng);
}

// The i-th byte that `from` sends to `to` in one exchange.
std::byte payload(std::int64_t exchange, Rank from, Rank to, std::int64_t i) {
  return static_cast<std::byte>(
      (exchange * 31 + from.value * 17 + to.value * 7 + i * 3 + (i >> 8)) & 0xff);
}

// Bytes per (sender rank, receiver rank).
using Sizes = std::vector<std::vector<std::int64_t>>;

struct Side {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::byte> bytes;
};

Side outgoing(const Communicator& comm, const Sizes& sizes, std::int64_t exchange) {
  Side side;
  for (const Rank to : comm.group().peer_order()) {
    for (std::int64_t i = 0; i < sizes[comm.rank().index()][to.index()]; ++i) {
      side.bytes.push_back(payload(exchange, comm.rank(), to, i));
    }
    side.offsets.push_back(static_cast<std::int64_t>(side.bytes.size()));
  }
  return side;
}

Side incoming(const Communicator& comm, const Sizes& sizes) {
  Side side;
  for (const Rank from : comm.group().peer_order()) {
    side.offsets.push_back(side.offsets.back() + sizes[from.index()][comm.rank().index()]);
  }
  side.bytes.resize(static_cast<std::size_t>(side.offsets.back()));
  return side;
}

std::vector<std::byte> expected(const Communicator& comm, const Sizes& sizes,
                                std::int64_t exchange) {
  std::vector<std::byte> bytes;
  for (const Rank from : comm.group().peer_order()) {
    for (std::int64_t i = 0; i < sizes[from.index()][comm.rank().index()]; ++i) {
      bytes.push_back(payload(exchange, from, comm.rank(), i));
    }
  }
  return bytes;
}

// Segments on both sides of the size up to which a contribution is copied at submission.
Sizes random_sizes(std::int32_t ranks) {
  Sizes sizes;
  const auto extent = static_cast<std::size_t>(ranks);
  for (std::size_t p = 0; p < extent; ++p) {
    const auto limit = property::draw_one_of<std::int64_t>({1, 64, 20'000});
    sizes.push_back(property::draw_integers<std::int64_t>(extent, 0, limit));
  }
  return sizes;
}

PROPERTY(LocalExchange, AllToAllVDeliversEverySegmentForAnyPeerOrder) {
  const ProcessGroup group = random_group(property::draw(1, 9));
  const std::vector<Sizes> exchanges{random_sizes(group.size()), random_sizes(group.size()),
                                     random_sizes(group.size())};
  std::vector<char> right(static_cast<std::size_t>(group.size()), 1);
  LocalGroup(group).run([&](Communicator& comm) {
    for (std::size_t e = 0; e < exchanges.size(); ++e) {
      const auto id = static_cast<std::int64_t>(e);
      const Side send = outgoing(comm, exchanges[e], id);
      Side recv = incoming(comm, exchanges[e]);
      comm.all_to_all_v({"test", send.bytes.data(), send.offsets, recv.bytes.data(), recv.offsets})
          .wait();
      if (recv.bytes != expected(comm, exchanges[e], id)) right[comm.rank().index()] = 0;
    }
  });
  HOLDS(right == std::vector<char>(right.size(), 1));
}

PROPERTY(LocalExchange, ExchangesInFlightTogetherDontMix) {
  const ProcessGroup group = random_group(property::draw(1, 7));
  const std::vector<Sizes> exchanges{random_sizes(group.size()), random_sizes(group.size())};
  std::vector<char> right(static_cast<std::size_t>(group.size()), 1);
  LocalGroup(group).run([&](Communicator& comm) {
    std::vector<Side> send, recv;
    std::vector<Completion> completions;
    for (std::size_t e = 0; e < exchanges.size(); ++e) {
      send.push_back(outgoing(comm, exchanges[e], static_cast<std::int64_t>(e)));
      recv.push_back(incoming(comm, exchanges[e]));
    }
    for (std::size_t e = 0; e < exchanges.size(); ++e) {
      completions.push_back(comm.all_to_all_v(
          {"test", send[e].bytes.data(), send[e].offsets, recv[e].bytes.data(), recv[e].offsets}));
    }
    completions[1].wait();
    completions[0].wait();
    for (std::size_t e = 0; e < exchanges.size(); ++e) {
      if (recv[e].bytes != expected(comm, exchanges[e], static_cast<std::int64_t>(e))) {
        right[comm.rank().index()] = 0;
      }
    }
  });
  HOLDS(right == std::vector<char>(right.size(), 1));
}

PROPERTY(LocalExchange, AllGatherFollowsPeerOrder) {
  const ProcessGroup group = random_group(property::draw(1, 9));
  const auto bytes = static_cast<std::size_t>(property::draw_one_of({0, 1, 100, 40'000}));
  const auto value = [](Rank rank) { return static_cast<std::byte>(rank.value + 1); };
  std::vector<char> right(static_cast<std::size_t>(group.size()), 1);
  LocalGroup(group).run([&](Communicator& comm) {
    const std::vector<std::byte> mine(bytes, value(comm.rank()));
    std::vector<std::byte> all(bytes * static_cast<std::size_t>(comm.size())), direct;
    comm.all_gather("test", mine, all);
    for (const Rank rank : comm.group().peer_order())
      direct.insert(direct.end(), bytes, value(rank));
    if (all != direct) right[comm.rank().index()] = 0;
  });
  HOLDS(right == std::vector<char>(right.size(), 1));
}

TEST(LocalExchange, PollingAloneCompletesAnExchange) {
  LocalGroup(ProcessGroup::identity(4)).run([](Communicator& comm) {
    const std::vector<std::int64_t> offsets{0, 8'000, 16'000, 24'000, 32'000};
    const std::vector<std::byte> send(32'000, static_cast<std::byte>(comm.rank().value));
    std::vector<std::byte> recv(32'000);
    Completion completion = comm.all_to_all_v({"test", send.data(), offsets, recv.data(), offsets});
    while (!completion.ready()) std::this_thread::yield();
    completion.wait();
    EXPECT_EQ(recv[31'999], std::byte{3});
  });
}

TEST(LocalExchange, AGroupRunsAgainAfterAFailedRun) {
  LocalGroup group(ProcessGroup::identity(2));
  EXPECT_THROW(group.run([](Communicator& comm) {
    if (comm.rank() == Rank{1}) throw Error(Code::InvalidValue);
    comm.all_gather("test", {}, {});
  }),
               Error);
  EXPECT_NO_THROW(group.run([](Communicator& comm) { comm.all_gather("test", {}, {}); }));
}

// With a copy each, what many ranks hold would grow with the square of their number.
TEST(LocalGroup, AllRanksShareOneTableOfTheGroup) {
  LocalGroup group(ProcessGroup::identity(2));
  const auto first = group.join(Rank{0}), second = group.join(Rank{1});
  EXPECT_EQ(&first->group(), &second->group());
}

}  // namespace
}  // namespace waybill
