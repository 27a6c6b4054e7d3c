// One payload row per (token, destination rank): tokens ascend within each peer. Chunks hold whole
// tokens, so that no payload row belongs to two of them.
#include <algorithm>
#include <utility>

#include "plan/host_plan_builder.h"

namespace waybill {

template <class Visit>
void HostPlanBuilder::visit_payload(const Chunk& c, const Visit& visit) {
  const std::int32_t* peer_of = by_slot();
  std::fill_n(c.last_token, peers_, -1);
  std::int32_t route = c.first_route;
  for (std::int32_t token = c.first_token; token < c.end_token; ++token) {
    for (std::int32_t k = 0; k < routes_.topk; ++k, ++route) {
      const std::int32_t slot = plan_.slot_[route];
      if (slot < 0) continue;
      const std::int32_t peer = peer_of[slot];
      const bool is_new = std::exchange(c.last_token[peer], token) != token;
      visit(route, token, peer, is_new);
    }
  }
}

void HostPlanBuilder::build_payload() {
  std::int32_t* peer_of = by_slot();
  for (std::int32_t peer = 0; peer < peers_; ++peer) {
    for (std::int32_t k = plan_.peer_key_offsets_[peer]; k < plan_.peer_key_offsets_[peer + 1];
         ++k) {
      peer_of[plan_.key_slot_[k]] = peer;
    }
  }
  for_each_chunk([this](const Chunk& c) {
    std::fill_n(c.peer_next, peers_, 0);
    visit_payload(c, [&c](std::int32_t, std::int32_t, std::int32_t peer, bool is_new) {
      c.peer_next[peer] += is_new ? 1 : 0;
    });
  });
  plan_.payload_offsets_.resize(static_cast<std::size_t>(peers_) + 1);
  std::int32_t row = 0;
  for (std::int32_t peer = 0; peer < peers_; ++peer) {
    plan_.payload_offsets_[peer] = row;
    for (std::int32_t i = 0; i < chunks_; ++i) {
      row += std::exchange(in_chunk(chunk0_.peer_next, i)[peer], row);
    }
  }
  plan_.payload_offsets_[peers_] = row;
  plan_.payload_token_.resize(row);
  plan_.payload_row_.resize(plan_.rows());
  for_each_chunk([this](const Chunk& c) {
    visit_payload(
        c, [this, &c](std::int32_t route, std::int32_t token, std::int32_t peer, bool is_new) {
          if (is_new) plan_.payload_token_[c.peer_next[peer]++] = token;
          plan_.payload_row_[plan_.send_position_[route]] =
              c.peer_next[peer] - 1 - plan_.payload_offsets_[peer];
        });
  });
}

}  // namespace waybill
