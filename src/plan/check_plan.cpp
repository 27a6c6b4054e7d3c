#include <fmt/format.h>

#include <utility>
#include <vector>

#include "waybill/error.h"
#include "waybill/plan.h"

namespace waybill {
namespace {

template <class Expected, class Found>
void expect(Code code, std::string_view column, std::int64_t index, const Expected& expected,
            const Found& found) {
  if (expected == found) return;
  throw Error(code).at("column", column).at("index", index).expected(expected).found(found);
}

class PlanCheck {
 public:
  PlanCheck(const PlanView& plan, const RoutesView& routes, const Placement& placement,
            const ProcessGroup& group)
      : plan_(plan), routes_(routes), placement_(placement), group_(group) {}

  void run() {
    check_sizes();
    count_routes();
    check_keys();
    check_send_offsets();
    check_send_order();
    check_inverse();
    if (plan_.payload_offsets != nullptr) {
      check_payload_tokens();
      check_payload_rows();
    }
  }

 private:
  std::int32_t rows() const { return plan_.key_offsets[plan_.slots]; }
  PeerSlot peer_of(std::int32_t route) const {
    return group_.peer_of(placement_.rank_of(SlotId{plan_.slot[route]}));
  }

  void check_sizes() const {
    expect(Code::RouteCountMismatch, "tokens", 0, routes_.tokens, plan_.tokens);
    expect(Code::RouteCountMismatch, "k", 0, routes_.topk, plan_.topk);
    expect(Code::LogicalCountMismatch, "experts", 0, placement_.experts(), plan_.experts);
    expect(Code::SlotCountMismatch, "slots", 0, placement_.slots(), plan_.slots);
    expect(Code::GroupShapeMismatch, "peers", 0, group_.size(), plan_.peers);
  }

  // Every accepted route has one slot of its expert, every dropped route none.
  void count_routes() {
    slot_rows_.assign(plan_.slots, 0);
    std::vector<std::int32_t> expert_rows(plan_.experts, 0);
    for (std::int32_t r = 0; r < routes_.size(); ++r) {
      const std::int32_t expert = routes_.experts[r];
      const std::int32_t slot = plan_.slot[r];
      if (expert == dropped_route) {
        expect(Code::RouteConservationMismatch, "slot", r, dropped_route, slot);
        continue;
      }
      if (expert < 0 || expert >= plan_.experts) throw route_error(Code::ExpertIdOutOfRange, r);
      if (slot == dropped_route) throw route_error(Code::ReplicaCardinalityZero, r);
      if (slot < 0 || slot >= plan_.slots || placement_.expert_of(SlotId{slot}).value != expert) {
        throw route_error(Code::SlotOutsideReplicaSet, r);
      }
      ++slot_rows_[slot];
      ++expert_rows[expert];
      ++accepted_;
    }
    for (std::int32_t e = 0; e < plan_.experts; ++e) {
      expect(Code::LogicalCountMismatch, "expert_counts", e, expert_rows[e],
             plan_.expert_counts[e]);
    }
  }

  // Send keys are the slots by (peer slot, local index); key offsets are the sums of their rows.
  void check_keys() {
    peer_keys_.assign(1, 0);
    std::int32_t key = 0;
    for (const Rank rank : group_.peer_order()) {
      if (rank.value < placement_.ranks()) {
        for (const SlotId slot : placement_.slots_on(rank)) {
          expect(Code::LocalSlotOrderMismatch, "key_slot", key, slot.value, plan_.key_slot[key]);
          ++key;
        }
      }
      peer_keys_.push_back(key);
    }
    expect(Code::RouteConservationMismatch, "key_offsets", plan_.slots, accepted_, rows());
    std::int32_t row = 0;
    for (key = 0; key < plan_.slots; ++key) {
      expect(Code::SlotCountMismatch, "key_offsets", key, row, plan_.key_offsets[key]);
      row += slot_rows_[plan_.key_slot[key]];
    }
  }

  void check_send_offsets() const {
    for (std::int32_t peer = 0; peer <= plan_.peers; ++peer) {
      expect(Code::SendOffsetMismatch, "send_offsets", peer, plan_.key_offsets[peer_keys_[peer]],
             plan_.send_offsets[peer]);
    }
  }

  // Within a key the rows are the routes of its slot, ascending: a stable order.
  void check_send_order() const {
    for (std::int32_t key = 0; key < plan_.slots; ++key) {
      std::int32_t last = -1;
      for (std::int32_t i = plan_.key_offsets[key]; i < plan_.key_offsets[key + 1]; ++i) {
        const std::int32_t route = plan_.send_order[i];
        const bool known = route >= 0 && route < routes_.size();
        if (!known || route <= last || plan_.slot[route] != plan_.key_slot[key]) {
          throw Error(Code::SendOrderMismatch)
              .at("column", "send_order")
              .at("index", i)
              .expected(fmt::format("a route of slot {} after route {}", plan_.key_slot[key], last))
              .found(route);
        }
        last = route;
      }
    }
  }

  void check_inverse() const {
    for (std::int32_t r = 0; r < routes_.size(); ++r) {
      if (routes_.experts[r] != dropped_route) continue;
      expect(Code::InversePositionMismatch, "send_position", r, dropped_route,
             plan_.send_position[r]);
    }
    for (std::int32_t i = 0; i < rows(); ++i) {
      const std::int32_t route = plan_.send_order[i];
      expect(Code::InversePositionMismatch, "send_position", route, i, plan_.send_position[route]);
    }
  }

  // A payload row for each (token, peer) that has routes, tokens ascending.
  void check_payload_tokens() {
    std::vector<std::int32_t> last(plan_.peers, -1);
    std::vector<std::int32_t> payload(static_cast<std::size_t>(plan_.peers) + 1, 0);
    for (std::int32_t r = 0; r < routes_.size(); ++r) {
      if (plan_.slot[r] == dropped_route) continue;
      const std::size_t peer = peer_of(r).index();
      if (std::exchange(last[peer], r / routes_.topk) != r / routes_.topk) ++payload[peer];
    }
    std::int32_t first = 0;
    for (std::int32_t peer = 0; peer <= plan_.peers; ++peer) {
      expect(Code::SendOffsetMismatch, "payload_offsets", peer, first, plan_.payload_offsets[peer]);
      first += payload[peer];
    }
    for (std::int32_t peer = 0; peer < plan_.peers; ++peer) {
      for (std::int32_t i = plan_.payload_offsets[peer] + 1; i < plan_.payload_offsets[peer + 1];
           ++i) {
        if (plan_.payload_token[i - 1] < plan_.payload_token[i]) continue;
        throw Error(Code::SendOrderMismatch)
            .at("column", "payload_token")
            .at("index", i)
            .expected(fmt::format("a token after {}", plan_.payload_token[i - 1]))
            .found(plan_.payload_token[i]);
      }
    }
  }

  // The payload row of each send row holds that row's token. Rows are as many as (token, peer)
  // pairs and ascend, so each pair has exactly one.
  void check_payload_rows() const {
    for (std::int32_t i = 0; i < rows(); ++i) {
      const std::int32_t route = plan_.send_order[i];
      const std::int32_t peer = peer_of(route).value;
      const std::int32_t first = plan_.payload_offsets[peer];
      const std::int32_t row = plan_.payload_row[i];
      if (row < 0 || row >= plan_.payload_offsets[peer + 1] - first) {
        throw Error(Code::InversePositionMismatch)
            .at("column", "payload_row")
            .at("index", i)
            .expected(fmt::format("a row in [0, {})", plan_.payload_offsets[peer + 1] - first))
            .found(row);
      }
      expect(Code::InversePositionMismatch, "payload_row", i, route / routes_.topk,
             plan_.payload_token[first + row]);
    }
  }

  Error route_error(Code code, std::int32_t route) const {
    return Error(code)
        .at("token", routes_.token(RouteId{route}))
        .at("route slot", routes_.slot(RouteId{route}))
        .at("expert", routes_.experts[route])
        .at("slot", plan_.slot[route]);
  }

  const PlanView& plan_;
  const RoutesView& routes_;
  const Placement& placement_;
  const ProcessGroup& group_;
  std::int32_t accepted_ = 0;
  std::vector<std::int32_t> slot_rows_;  // [Q]
  std::vector<std::int32_t> peer_keys_;  // [P+1] first send key of each peer
};

}  // namespace

void check_plan(const PlanView& plan, const RoutesView& routes, const Placement& placement,
                const ProcessGroup& group) {
  PlanCheck(plan, routes, placement, group).run();
}

void check_plan(const HostPlan& plan, const RoutesView& routes, const Placement& placement,
                const ProcessGroup& group) {
  check_plan(plan.view(), routes, placement, group);
  // What peers are told of their slots' rows is kept beside the key offsets.
  std::size_t key = 0;
  for (std::int32_t peer = 0; peer < plan.peers(); ++peer) {
    for (const std::int32_t rows : plan.slot_counts(PeerSlot{peer})) {
      expect(Code::SlotCountMismatch, "slot_counts", static_cast<std::int64_t>(key),
             plan.key_offsets()[key + 1] - plan.key_offsets()[key], rows);
      ++key;
    }
  }
}

}  // namespace waybill
