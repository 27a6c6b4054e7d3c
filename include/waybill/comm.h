// How ranks of one process group exchange bytes. Counts and payload are separate phases: peers
// agree on sizes before any payload moves. Every wait has a deadline; a peer's failure is a typed
// error on all. Source: reference text 0x03C.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "waybill/error.h"
#include "waybill/topology.h"

namespace waybill {

struct CommOptions {
  // Longest wait for peers in one phase; PeerTimeout after it, naming the missing peers.
  std::chrono::milliseconds timeout{30'000};
};

// An all-to-all with a size per pair. Offsets are bytes, [P+1] in peer order; segment p of `send`
// goes to peer p, segment p of `recv` is filled by peer p. Buffers stay owned by the caller and
// must not be touched between submission and completion.
struct AllToAllV {
  std::string_view phase;  // named in errors: "counts", "dispatch", "return"; static storage
  const std::byte* send = nullptr;
  std::span<const std::int64_t> send_offsets;
  std::byte* recv = nullptr;
  std::span<const std::int64_t> recv_offsets;
};

// A submitted exchange. Destroying one that isn't complete abandons it without waiting for peers
// and aborts the group, since peers may still read the buffers.
class Completion {
 public:
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual bool ready() = 0;
    virtual void wait() = 0;
  };

  Completion() = default;  // already complete
  explicit Completion(std::unique_ptr<Pending> pending) : pending_(std::move(pending)) {}

  bool ready() const { return pending_ == nullptr || pending_->ready(); }
  // Returns when both buffers may be reused; throws PeerTimeout, PeerAborted or RecvSplitMismatch
  // (a peer's segment has another size; peer, expected and found bytes named).
  void wait() {
    if (pending_ != nullptr) {
      pending_->wait();
      pending_.reset();
    }
  }

 private:
  std::unique_ptr<Pending> pending_;
};

// One rank's end of a group. Collectives must be called in the same order by all peers; calls on
// one communicator come from one thread at a time.
class Communicator {
 public:
  // Never waits for peers. A peer that waits for a rank which has left gets PeerAborted.
  virtual ~Communicator() = default;

  virtual const ProcessGroup& group() const = 0;
  virtual PeerSlot self() const = 0;
  Rank rank() const { return group().rank_of(self()); }
  std::int32_t size() const { return group().size(); }

  // Every peer contributes `mine.size()` bytes (equal on all peers: PeerCountDisagreement);
  // `all` receives P * mine.size() bytes in peer order.
  virtual void all_gather(std::string_view phase, std::span<const std::byte> mine,
                          std::span<std::byte> all) = 0;
  // SendOffsetMismatch or RecvSplitMismatch for offsets that aren't [P+1] or that fall.
  virtual Completion all_to_all_v(const AllToAllV& exchange) = 0;

  // Tells every peer that this rank can't go on; their pending and later calls throw PeerAborted
  // with this rank, `cause` and its phase. Idempotent.
  virtual void abort(const Error& cause) noexcept = 0;
};

// The ranks of one process as threads over shared memory.
class LocalGroup {
 public:
  LocalGroup(ProcessGroup group, CommOptions options = {});
  ~LocalGroup();

  const ProcessGroup& group() const;

  // One end per rank; each is used by one thread. The group must outlive its ends.
  std::unique_ptr<Communicator> join(Rank rank);

  // Runs `body` on one thread per rank and joins them. When a body throws, the group is aborted so
  // that the others return; the first cause (not the PeerAborted errors it led to) is rethrown.
  void run(const std::function<void(Communicator&)>& body);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace waybill
