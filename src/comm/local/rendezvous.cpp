#include "comm/local/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <string>
#include <utility>

namespace waybill::local {
namespace {

std::string_view name(Collective collective) {
  switch (collective) {
    case Collective::all_gather: return "all_gather";
    case Collective::all_to_all_v: return "all_to_all_v";
    case Collective::withdrawal: return "withdrawal";
  }
  return {};
}

// A wait longer than the clock can tell has no end.
Rendezvous::Clock::time_point later(Rendezvous::Clock::time_point began,
                                    std::chrono::milliseconds timeout) {
  constexpr auto end = Rendezvous::Clock::time_point::max();
  return timeout < std::chrono::floor<std::chrono::milliseconds>(end - began) ? began + timeout
                                                                              : end;
}

std::string call_text(const Contribution& peer) {
  return fmt::format("{} '{}'", name(peer.collective), peer.phase);
}

}  // namespace

Rendezvous::Rendezvous(const ProcessGroup& group, CommOptions options)
    : group_(group),
      options_(options),
      next_(static_cast<std::size_t>(group.size())),
      phase_(static_cast<std::size_t>(group.size())),
      departed_(static_cast<std::size_t>(group.size())),
      paused_(static_cast<std::size_t>(group.size())),
      resumed_(static_cast<std::size_t>(group.size())) {}

Round& Rendezvous::enter(PeerSlot self) {
  Lock lock(mutex_);
  if (abort_) throw aborted();
  const std::uint64_t index = next_[self.index()]++ - first_;
  assert(index <= rounds_.size());
  if (index == rounds_.size()) {
    if (spare_.empty()) {
      spare_.push_back(std::make_unique<Round>());
      spare_.back()->peers.resize(static_cast<std::size_t>(size()));
    }
    rounds_.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  return *rounds_[index];
}

void Rendezvous::arrive(Round& round, PeerSlot self) {
  Lock lock(mutex_);
  Contribution& mine = round.peers[self.index()];
  phase_[self.index()] = mine.phase;
  mine.arrived = true;
  if (++round.arrived == size()) {
    judge(round);
    changed_.notify_all();
  }
}

// Every peer throws what is found here, so that the group fails alike.
void Rendezvous::judge(Round& round) {
  if (const std::optional<PeerSlot> peer = withdrawn(round)) {
    set_abort(*peer, withdrawal_);
    round.fault = aborted();
    return;
  }
  const PeerSlot lowest = group_.by_rank().front();
  const Contribution& reference = round.peers[lowest.index()];
  for (const PeerSlot peer : group_.by_rank()) {
    const Contribution& other = round.peers[peer.index()];
    if (other.phase != reference.phase || other.collective != reference.collective) {
      round.fault = Error(Code::AgreementMismatch)
                        .at("field", "phase")
                        .at("rank", group_.rank_of(peer))
                        .at("other_rank", group_.rank_of(lowest))
                        .expected(call_text(reference))
                        .found(call_text(other));
      return set_abort(peer, *round.fault);
    }
  }
  const Code code = reference.collective == Collective::all_gather ? Code::PeerCountDisagreement
                                                                   : Code::RecvSplitMismatch;
  for (const PeerSlot receiver : group_.by_rank()) {
    for (const PeerSlot sender : group_.by_rank()) {
      const std::size_t expected = round.peers[receiver.index()].incoming[sender.index()].size();
      const std::size_t found = round.peers[sender.index()].outgoing[receiver.index()].size();
      if (expected == found) continue;
      round.fault = Error(code)
                        .at("phase", reference.phase)
                        .at("rank", group_.rank_of(receiver))
                        .at("peer", group_.rank_of(sender))
                        .expected(fmt::format("{} bytes", expected))
                        .found(fmt::format("{} bytes", found));
      return set_abort(sender, *round.fault);
    }
  }
}

void Rendezvous::pass(Round& round, PeerSlot self) {
  Lock lock(mutex_);
  round.peers[self.index()].copied = true;
  if (++round.copied == size()) changed_.notify_all();
  leave(round);
}

bool Rendezvous::poll(Round& round, PeerSlot self) {
  Lock lock(mutex_);
  const Contribution& mine = round.peers[self.index()];
  if (round.arrived < size()) return abort_ || departed(round, &Contribution::arrived);
  if (!readable(round)) return true;
  if (!mine.copied) copy(lock, round, self);
  return mine.owned || round.copied == size() || abort_;
}

void Rendezvous::finish(Round& round, PeerSlot self) {
  const Clock::time_point began = Clock::now();
  Lock lock(mutex_);
  const Contribution& mine = round.peers[self.index()];
  if (!mine.copied) {
    await(lock, round, self, &Round::arrived, &Contribution::arrived, began);
    if (round.fault) fail(lock, round, self, *round.fault);
    if (!readable(round)) fail(lock, round, self, aborted());
    copy(lock, round, self);
  }
  if (!mine.owned) await(lock, round, self, &Round::copied, &Contribution::copied, began);
  leave(round);
}

// An abort takes the buffers that peers lent; a round of copies still completes, so that what was
// gathered before the abort reads alike everywhere.
bool Rendezvous::readable(const Round& round) const {
  return !round.fault && (!abort_ || std::ranges::all_of(round.peers, &Contribution::owned));
}

void Rendezvous::copy(Lock& lock, Round& round, PeerSlot self) {
  ++round.copying;
  lock.unlock();
  Contribution& mine = round.peers[self.index()];
  for (std::size_t p = 0; p < round.peers.size(); ++p) {
    const std::span<const std::byte> from = round.peers[p].outgoing[self.index()];
    if (!from.empty()) std::memcpy(mine.incoming[p].data(), from.data(), from.size());
  }
  lock.lock();
  --round.copying;
  mine.copied = true;
  ++round.copied;
  if (round.copied == size() || (abort_ && round.copying == 0)) changed_.notify_all();
}

void Rendezvous::await(Lock& lock, Round& round, PeerSlot self, std::int32_t Round::*count,
                       bool Contribution::*passed, Clock::time_point began) {
  while (round.*count < size()) {
    if (abort_) fail(lock, round, self, aborted());
    if (const std::optional<PeerSlot> peer = departed(round, passed)) {
      set_abort(*peer, Error(Code::PeerAborted).note("it left the group while peers wait for it"));
      fail(lock, round, self, aborted());
    }
    const Clock::time_point end = deadline(round, passed, began);
    if (Clock::now() >= end) fail(lock, round, self, timeout(round, self, passed));
    changed_.wait_until(lock, end);
  }
}

Rendezvous::Clock::time_point Rendezvous::deadline(const Round& round, bool Contribution::*passed,
                                                   Clock::time_point began) const {
  Clock::time_point end = Clock::time_point::max();
  for (std::size_t p = 0; p < round.peers.size(); ++p) {
    if (round.peers[p].*passed || paused_[p]) continue;
    end = std::min(end, later(std::max(began, resumed_[p]), options_.timeout));
  }
  return end;
}

// Rounds are reused, but not those of an aborted group.
void Rendezvous::leave(Round& round) {
  if (++round.left < size()) return;
  while (!rounds_.empty() && rounds_.front()->left == size()) {
    std::unique_ptr<Round> done = std::move(rounds_.front());
    rounds_.pop_front();
    ++first_;
    done->arrived = done->copied = done->left = 0;
    for (Contribution& peer : done->peers) peer.arrived = peer.copied = false;
    spare_.push_back(std::move(done));
  }
}

void Rendezvous::fail(Lock& lock, Round& round, PeerSlot self, Error error) {
  set_abort(self, error);
  changed_.wait(lock, [&] { return round.copying == 0; });
  throw error;
}

void Rendezvous::abandon(Round& round, PeerSlot self) noexcept {
  abort(self, abandoned_);
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return round.copying == 0; });
}

void Rendezvous::pause_deadline(PeerSlot self) noexcept {
  Lock lock(mutex_);
  paused_[self.index()] = true;
}

void Rendezvous::resume_deadline(PeerSlot self) noexcept {
  Lock lock(mutex_);
  paused_[self.index()] = false;
  resumed_[self.index()] = Clock::now();
  changed_.notify_all();
}

void Rendezvous::abort(PeerSlot self, const Error& cause) noexcept {
  Lock lock(mutex_);
  set_abort(self, cause);
}

void Rendezvous::set_abort(PeerSlot self, const Error& cause) noexcept {
  if (abort_) return;
  const Rank rank = group_.rank_of(self);
  const std::string_view phase = phase_[self.index()];
  try {
    abort_ = Abort{rank, phase, cause};
  } catch (const std::bad_alloc&) {
    abort_ = Abort{rank, phase, std::move(no_memory_)};
  }
  changed_.notify_all();
}

void Rendezvous::depart(PeerSlot self) noexcept {
  Lock lock(mutex_);
  departed_[self.index()] = true;
  changed_.notify_all();
}

Error Rendezvous::aborted() const {
  return Error(Code::PeerAborted)
      .at("rank", abort_->rank)
      .at("cause", abort_->cause.code())
      .at("phase", abort_->phase.empty() ? "none" : abort_->phase)
      .note(abort_->cause.what());
}

std::optional<PeerSlot> Rendezvous::withdrawn(const Round& round) const {
  const auto withdraws = [&](PeerSlot peer) {
    return round.peers[peer.index()].collective == Collective::withdrawal;
  };
  const std::span<const PeerSlot> peers = group_.by_rank();
  const auto first = std::ranges::find_if(peers, withdraws);
  if (first == peers.end() || std::ranges::all_of(peers, withdraws)) return std::nullopt;
  return *first;
}

std::optional<PeerSlot> Rendezvous::departed(const Round& round, bool Contribution::*passed) const {
  for (const PeerSlot peer : group_.by_rank()) {
    if (departed_[peer.index()] && !(round.peers[peer.index()].*passed)) return peer;
  }
  return std::nullopt;
}

Error Rendezvous::timeout(const Round& round, PeerSlot self, bool Contribution::*passed) const {
  std::string missing;
  std::int32_t present = 0;
  for (const PeerSlot peer : group_.by_rank()) {
    if (round.peers[peer.index()].*passed) {
      ++present;
    } else if (!paused_[peer.index()]) {
      missing += fmt::format("{}{}", missing.empty() ? "" : " ", group_.rank_of(peer).value);
    }
  }
  return Error(Code::PeerTimeout)
      .at("rank", group_.rank_of(self))
      .at("phase", round.peers[self.index()].phase)
      .at("missing_ranks", missing)
      .expected(fmt::format("{} ranks within {} ms", size(), options_.timeout.count()))
      .found(fmt::format("{} ranks", present));
}

}  // namespace waybill::local
