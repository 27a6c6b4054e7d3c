#include <string>
#include <utility>
#include <vector>

#include "waybill/error.h"
#include "waybill/topology.h"

namespace waybill {
namespace {

// Bounds the table from rank to peer slot, whose size a peer order decides.
constexpr std::int32_t rank_limit = 1 << 20;

}  // namespace

ProcessGroup::ProcessGroup(ProcessGroupId id, GroupEpoch epoch, std::vector<Rank> peer_order)
    : id_(std::move(id)), epoch_(epoch), peer_order_(std::move(peer_order)) {
  if (peer_order_.empty()) {
    throw Error(Code::PeerOrderInvalid)
        .at("process_group", id_)
        .expected("at least one rank")
        .found("none");
  }
  for (std::size_t peer = 0; peer < peer_order_.size(); ++peer) {
    const Rank rank = peer_order_[peer];
    if (rank.value < 0 || rank.value >= rank_limit) {
      throw Error(Code::PeerOrderInvalid)
          .at("process_group", id_)
          .at("peer_slot", peer)
          .expected("a rank in [0, " + std::to_string(rank_limit) + ")")
          .found(rank);
    }
    if (rank.index() >= peer_of_rank_.size()) peer_of_rank_.resize(rank.index() + 1, -1);
    std::int32_t& slot = peer_of_rank_[rank.index()];
    if (slot >= 0) {
      throw Error(Code::PeerOrderInvalid)
          .at("process_group", id_)
          .at("peer_slot", peer)
          .expected("each rank once")
          .found("rank " + std::to_string(rank.value) + " also in peer slot " +
                 std::to_string(slot));
    }
    slot = static_cast<std::int32_t>(peer);
  }
  for (std::int32_t peer : peer_of_rank_) {
    if (peer >= 0) by_rank_.emplace_back(peer);
  }
}

ProcessGroup ProcessGroup::identity(std::int32_t ranks) {
  if (ranks < 1) {
    throw Error(Code::InvalidValue).at("field", "ranks").expected("at least 1").found(ranks);
  }
  std::vector<Rank> order;
  order.reserve(static_cast<std::size_t>(ranks));
  for (std::int32_t rank = 0; rank < ranks; ++rank) order.emplace_back(rank);
  return {ProcessGroupId("ep-group-0"), GroupEpoch{0}, std::move(order)};
}

bool ProcessGroup::contains(Rank rank) const {
  return rank.value >= 0 && rank.index() < peer_of_rank_.size() && peer_of_rank_[rank.index()] >= 0;
}

PeerSlot ProcessGroup::peer_of(Rank rank) const {
  if (!contains(rank)) {
    throw Error(Code::RankOutsideGroup)
        .at("process_group", id_)
        .at("rank", rank)
        .expected("a member of the group")
        .found(rank);
  }
  return PeerSlot{peer_of_rank_[rank.index()]};
}

}  // namespace waybill
