#include "comm/local/communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace waybill::local {
namespace {

// Up to this size a contribution is copied at submission: its sender then needn't wait until every
// reader has come by, which costs a small exchange more than the copy.
constexpr std::size_t kStagedBytes = 16 * 1024;

void stage(Contribution& mine, std::span<const std::byte> send) {
  mine.owned = send.size() <= kStagedBytes;
  if (!mine.owned) return;
  mine.staged.assign(send.begin(), send.end());
  for (std::span<const std::byte>& segment : mine.outgoing) {
    const auto offset = static_cast<std::size_t>(segment.data() - send.data());
    segment = std::span<const std::byte>(mine.staged).subspan(offset, segment.size());
  }
}

class LocalExchange final : public Completion::Pending {
 public:
  LocalExchange(std::shared_ptr<Rendezvous> rendezvous, Round& round, PeerSlot self)
      : rendezvous_(std::move(rendezvous)), round_(&round), self_(self) {}
  LocalExchange(const LocalExchange&) = delete;
  LocalExchange& operator=(const LocalExchange&) = delete;
  ~LocalExchange() override {
    if (round_ != nullptr) rendezvous_->abandon(*round_, self_);
  }

  bool ready() override { return round_ == nullptr || rendezvous_->poll(*round_, self_); }
  void wait() override {
    if (Round* round = std::exchange(round_, nullptr)) rendezvous_->finish(*round, self_);
  }

 private:
  std::shared_ptr<Rendezvous> rendezvous_;
  Round* round_;  // null once it has ended, well or badly
  PeerSlot self_;
};

void check_offsets(std::span<const std::int64_t> offsets, std::int32_t peers,
                   std::string_view phase, Code code, std::string_view field) {
  const auto entries = static_cast<std::size_t>(peers) + 1;
  if (offsets.size() != entries) {
    throw Error(code)
        .at("phase", phase)
        .at("field", field)
        .expected(fmt::format("{} offsets", entries))
        .found(offsets.size());
  }
  for (std::size_t p = 0; p + 1 < entries; ++p) {
    if (offsets[p] < 0 || offsets[p + 1] < offsets[p]) {
      throw Error(code)
          .at("phase", phase)
          .at("field", field)
          .at("peer_slot", p)
          .expected(fmt::format("at least {}", offsets[p]))
          .found(offsets[p + 1]);
    }
  }
}

}  // namespace

LocalCommunicator::LocalCommunicator(const ProcessGroup& group, PeerSlot self,
                                     std::shared_ptr<Rendezvous> rendezvous)
    : group_(group), self_(self), rendezvous_(std::move(rendezvous)) {}

LocalCommunicator::~LocalCommunicator() { rendezvous_->depart(self_); }

void LocalCommunicator::all_gather(std::string_view phase, std::span<const std::byte> mine,
                                   std::span<std::byte> all) {
  const auto peers = static_cast<std::size_t>(size());
  if (all.size() != peers * mine.size()) {
    throw Error(Code::PeerCountDisagreement)
        .at("phase", phase)
        .expected(fmt::format("{} bytes for {} peers", peers * mine.size(), peers))
        .found(all.size());
  }
  Round& round = rendezvous_->enter(self_);
  Contribution& contribution = round.peers[self_.index()];
  contribution.collective = Collective::all_gather;
  contribution.phase = phase;
  contribution.outgoing.assign(peers, mine);
  contribution.incoming.resize(peers);
  for (std::size_t p = 0; p < peers; ++p) {
    contribution.incoming[p] = all.subspan(p * mine.size(), mine.size());
  }
  stage(contribution, mine);
  rendezvous_->arrive(round, self_);
  rendezvous_->finish(round, self_);
}

Completion LocalCommunicator::all_to_all_v(const AllToAllV& exchange) {
  check_offsets(exchange.send_offsets, size(), exchange.phase, Code::SendOffsetMismatch,
                "send_offsets");
  check_offsets(exchange.recv_offsets, size(), exchange.phase, Code::RecvSplitMismatch,
                "recv_offsets");
  const auto peers = static_cast<std::size_t>(size());
  Round& round = rendezvous_->enter(self_);
  Contribution& contribution = round.peers[self_.index()];
  contribution.collective = Collective::all_to_all_v;
  contribution.phase = exchange.phase;
  contribution.outgoing.resize(peers);
  contribution.incoming.resize(peers);
  for (std::size_t p = 0; p < peers; ++p) {
    const auto extent = [p](std::span<const std::int64_t> offsets) {
      return static_cast<std::size_t>(offsets[p + 1] - offsets[p]);
    };
    contribution.outgoing[p] = {exchange.send + exchange.send_offsets[p],
                                extent(exchange.send_offsets)};
    contribution.incoming[p] = {exchange.recv + exchange.recv_offsets[p],
                                extent(exchange.recv_offsets)};
  }
  stage(contribution, {exchange.send, static_cast<std::size_t>(exchange.send_offsets[peers])});
  auto pending = std::make_unique<LocalExchange>(rendezvous_, round, self_);
  rendezvous_->arrive(round, self_);
  return Completion(std::move(pending));
}

void LocalCommunicator::abort(const Error& cause) noexcept { rendezvous_->abort(self_, cause); }

}  // namespace waybill::local
