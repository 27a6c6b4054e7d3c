// Where the ranks of one process meet. The n-th collective of every peer is round n; a peer arrives
// with its contribution, and when all have arrived each copies its own segments out of the others'
// buffers.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "waybill/comm.h"
#include "waybill/error.h"
#include "waybill/topology.h"

namespace waybill::local {

enum class Collective : std::uint8_t { all_gather, all_to_all_v, withdrawal };

// What one peer brings to a round.
struct Contribution {
  Collective collective = Collective::all_gather;
  std::string_view phase;
  std::vector<std::span<const std::byte>> outgoing;  // [P] segment for each peer
  std::vector<std::span<std::byte>> incoming;        // [P] where each peer's segment goes
  std::vector<std::byte> staged;                     // holds `outgoing` when `owned`
  bool owned = false;                                // the caller's send buffer is free already
  bool arrived = false, copied = false;
};

struct Round {
  std::vector<Contribution> peers;  // [P]
  std::int32_t arrived = 0;
  std::int32_t copied = 0;
  std::int32_t copying = 0;    // peers that read the others' buffers right now
  std::int32_t left = 0;       // peers that are done with the round
  std::optional<Error> fault;  // what the last to arrive found wrong; thrown by every peer
};

class Rendezvous {
 public:
  using Clock = std::chrono::steady_clock;

  Rendezvous(const ProcessGroup& group, CommOptions options);

  // One table for all ranks: a copy of each would grow with the square of their number.
  const ProcessGroup& group() const { return group_; }

  // The peer's next round; its own contribution is the caller's to fill until arrive().
  Round& enter(PeerSlot self);
  void arrive(Round& round, PeerSlot self);
  // Ends a round for a peer that neither reads the others' segments nor lends a buffer.
  void pass(Round& round, PeerSlot self);
  // True when finish() would not block. Copies as soon as all have arrived.
  bool poll(Round& round, PeerSlot self);
  // Returns when the peer's segments have come and its buffers are free. On an exception nobody
  // reads them any more, and the group is aborted.
  void finish(Round& round, PeerSlot self);
  // Gives up a round before finish(): aborts the group; waits for copies under way, never for
  // peers.
  void abandon(Round& round, PeerSlot self) noexcept;

  // No peer's deadline runs for this one until it resumes.
  void pause_deadline(PeerSlot self) noexcept;
  void resume_deadline(PeerSlot self) noexcept;

  void abort(PeerSlot self, const Error& cause) noexcept;
  void abort_without_memory(PeerSlot self) noexcept { abort(self, no_memory_); }
  // The peer takes part in no further round.
  void depart(PeerSlot self) noexcept;

 private:
  struct Abort {
    Rank rank;
    std::string_view phase;  // the last that the rank entered
    Error cause;
  };
  using Lock = std::unique_lock<std::mutex>;

  std::int32_t size() const { return group_.size(); }
  void judge(Round& round);
  bool readable(const Round& round) const;
  void copy(Lock& lock, Round& round, PeerSlot self);
  void await(Lock& lock, Round& round, PeerSlot self, std::int32_t Round::*count,
             bool Contribution::*passed, Clock::time_point began);
  // When the first of the peers that haven't passed is late.
  Clock::time_point deadline(const Round& round, bool Contribution::*passed,
                             Clock::time_point began) const;
  void leave(Round& round);
  void set_abort(PeerSlot self, const Error& cause) noexcept;
  [[noreturn]] void fail(Lock& lock, Round& round, PeerSlot self, Error error);
  Error aborted() const;
  // The first peer that withdrew where others didn't.
  std::optional<PeerSlot> withdrawn(const Round& round) const;
  // The first peer that left the group without `passed`.
  std::optional<PeerSlot> departed(const Round& round, bool Contribution::*passed) const;
  Error timeout(const Round& round, PeerSlot self, bool Contribution::*passed) const;

  const ProcessGroup group_;
  const CommOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Round>> rounds_;  // front is round first_
  std::uint64_t first_ = 0;
  std::vector<std::unique_ptr<Round>> spare_;
  std::vector<std::uint64_t> next_;         // [P] round that a peer enters next
  std::vector<std::string_view> phase_;     // [P] phase that a peer entered last
  std::vector<bool> departed_;              // [P]
  std::vector<bool> paused_;                // [P] no deadline runs for a peer
  std::vector<Clock::time_point> resumed_;  // [P] when the deadline last began to run again
  std::optional<Abort> abort_;
  // Made beforehand: to give up must not need memory.
  const Error abandoned_ =
      Error(Code::PeerAborted).note("an exchange was given up before its completion");
  const Error withdrawal_ =
      Error(Code::PeerAborted).note("it gave up the step that its peers go on with");
  Error no_memory_{Code::MemoryExhausted};
};

}  // namespace waybill::local
