#include "placement/balance/packing.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "placement/balance/index.h"
#include "placement/balance/room.h"
#include "placement/balance/winner_tree.h"

namespace waybill {
namespace {

class Packer {
 public:
  Packer(const LayerProblem& problem, std::span<const std::int32_t> copies)
      : problem_(problem),
        copies_(copies),
        on_(problem.slot_end.size()),
        load_(problem.slot_end.size(), 0),
        holds_(problem.slot_end.size() * problem.load.size(), 0) {}

  std::optional<std::vector<std::int32_t>> pack() {
    const auto by_node = copies_by_node();
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(by_node.size()); ++n) {
      pack_node(n, by_node[at(n)]);
    }
    for (std::int32_t e : left_over_) {
      if (!make_room(e)) return std::nullopt;
    }
    std::vector<std::int32_t> slots;
    for (const auto& experts : on_) slots.insert(slots.end(), experts.begin(), experts.end());
    return slots;
  }

 private:
  bool holds(std::int32_t rank, std::int32_t expert) const {
    return holds_[at(rank) * problem_.load.size() + at(expert)] != 0;
  }
  bool has_room(std::int32_t rank) const {
    return static_cast<std::int32_t>(on_[at(rank)].size()) < problem_.slots_on(rank);
  }
  double share(std::int32_t expert) const {
    return problem_.load[at(expert)] / copies_[at(expert)];
  }
  void seat(std::int32_t rank, std::int32_t expert) {
    on_[at(rank)].push_back(expert);
    holds_[at(rank) * problem_.load.size() + at(expert)] = 1;
    load_[at(rank)] += share(expert);
  }

  // Experts by falling load of a copy, ties by id.
  std::vector<std::int32_t> heaviest_first() const {
    std::vector<double> shares;
    shares.reserve(problem_.load.size());
    for (std::int32_t e = 0; e < problem_.experts(); ++e) shares.push_back(share(e));
    std::vector<std::int32_t> order(shares.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](std::int32_t a, std::int32_t b) {
      return shares[at(a)] > shares[at(b)] || (shares[at(a)] == shares[at(b)] && a < b);
    });
    return order;
  }

  // [nodes] experts, one entry a copy, heaviest first; a single list when homes don't matter.
  std::vector<std::vector<std::int32_t>> copies_by_node() const {
    std::vector<std::vector<std::int32_t>> by_node(problem_.keep_home ? at(problem_.nodes) : 1);
    if (!problem_.keep_home) {
      for (std::int32_t e : heaviest_first())
        by_node[0].insert(by_node[0].end(), at(copies_[at(e)]), e);
      return by_node;
    }
    std::vector<NodeState> nodes = empty_nodes();
    for (std::int32_t e = 0; e < problem_.experts(); ++e) {
      NodeState& home = nodes[at(problem_.home[at(e)])];
      home.load += share(e);
      --home.slots;
    }
    for (std::int32_t e : heaviest_first()) {
      for (NodeState& node : nodes) node.here = 0;
      nodes[at(problem_.home[at(e)])].here = 1;
      for (std::int32_t copy = 1; copy < copies_[at(e)]; ++copy) {
        NodeState& node = node_for(e, nodes);
        if (node.room.admits(node.here)) node.room.take(node.here);
        ++node.here;
        --node.slots;
        node.load += share(e);
      }
      for (std::size_t n = 0; n < by_node.size(); ++n) {
        by_node[n].insert(by_node[n].end(), at(nodes[n].here), e);
      }
    }
    return by_node;
  }

  struct NodeState {
    Room room;
    double load = 0, speed = 0;
    std::int32_t slots = 0;  // free ones
    std::int32_t here = 0;   // copies of the expert in hand
  };
  std::vector<NodeState> empty_nodes() const {
    std::vector<NodeState> nodes;
    for (std::int32_t n = 0; n < problem_.nodes; ++n) {
      std::vector<std::int32_t> slots;
      double speed = 0;
      for (std::int32_t p = 0; p < problem_.ranks(); ++p) {
        if (problem_.node[at(p)] != n) continue;
        slots.push_back(problem_.slots_on(p));
        speed += problem_.speed[at(p)];
      }
      const std::int32_t free = std::accumulate(slots.begin(), slots.end(), std::int32_t{0});
      nodes.push_back({Room(std::move(slots)), 0, speed, free, 0});
    }
    return nodes;
  }
  // The least loaded node with a slot for a copy that need not stay at home, if possible one whose
  // ranks can seat it beside the expert's other copies.
  NodeState& node_for(std::int32_t expert, std::vector<NodeState>& nodes) const {
    if (problem_.only_home) return nodes[at(problem_.home[at(expert)])];
    const auto lighter = [](const NodeState& a, const NodeState& b) {
      const auto rank = [](const NodeState& node) {
        return node.slots <= 0 ? 2 : node.room.admits(node.here) ? 0 : 1;
      };
      if (rank(a) != rank(b)) return rank(a) < rank(b);
      return a.load / a.speed < b.load / b.speed;
    };
    return *std::ranges::min_element(nodes, lighter);
  }

  void pack_node(std::int32_t node, std::span<const std::int32_t> experts) {
    std::vector<std::int32_t> ranks;
    for (std::int32_t p = 0; p < problem_.ranks(); ++p) {
      if (!problem_.keep_home || problem_.node[at(p)] == node) ranks.push_back(p);
    }
    WinnerTree lightest(WinnerTree::Wins::smallest);
    lightest.reset(ranks.size());
    lightest.refresh();
    std::vector<std::size_t> passed;
    for (std::int32_t e : experts) {
      passed.clear();
      while (!lightest.empty() && holds(ranks[lightest.winner()], e)) {
        passed.push_back(lightest.winner());
        lightest.take_out(passed.back());
      }
      if (lightest.empty()) {
        left_over_.push_back(e);
      } else {
        const std::size_t i = lightest.winner();
        seat(ranks[i], e);
        if (has_room(ranks[i])) {
          lightest.update(i, time(ranks[i]));
        } else {
          lightest.take_out(i);
        }
      }
      for (std::size_t i : passed) lightest.update(i, time(ranks[i]));
    }
  }
  float time(std::int32_t rank) const {
    return static_cast<float>(load_[at(rank)] / problem_.speed[at(rank)]);
  }

  struct Move {
    std::int32_t from = -1, expert = -1;  // from -1: a copy that has no slot yet
  };

  // Seats a copy for which every rank with room has the expert already, by the shortest chain of
  // moves: it takes a slot, whose expert takes another slot, … until a rank has room.
  bool make_room(std::int32_t expert) {
    std::vector<Move> into(on_.size());  // by rank: the move that brings the search there
    std::vector<char> seen(on_.size(), 0);
    std::vector<std::int32_t> queue;
    const auto reach = [&](std::int32_t rank, Move move) {
      if (seen[at(rank)] != 0 || holds(rank, move.expert)) return;
      seen[at(rank)] = 1;
      into[at(rank)] = move;
      queue.push_back(rank);
    };
    for (std::int32_t p = 0; p < problem_.ranks(); ++p) {
      if (may_seat(expert, p)) reach(p, {-1, expert});
    }
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const std::int32_t rank = queue[i];
      if (has_room(rank)) {
        follow(into, rank);
        return true;
      }
      for (std::int32_t e : on_[at(rank)]) {
        for (std::int32_t to = 0; to < problem_.ranks(); ++to) {
          if (may_move(e, rank, to)) reach(to, {rank, e});
        }
      }
    }
    return false;
  }

  // Plays a chain of moves from its last rank back.
  void follow(std::span<const Move> into, std::int32_t rank) {
    while (true) {
      const Move move = into[at(rank)];
      seat(rank, move.expert);
      if (move.from < 0) return;
      std::erase(on_[at(move.from)], move.expert);
      holds_[at(move.from) * problem_.load.size() + at(move.expert)] = 0;
      load_[at(move.from)] -= share(move.expert);
      rank = move.from;
    }
  }

  bool at_home(std::int32_t expert, std::int32_t rank) const {
    return problem_.node[at(rank)] == problem_.home[at(expert)];
  }
  bool may_seat(std::int32_t expert, std::int32_t rank) const {
    if (!problem_.keep_home || at_home(expert, rank)) return true;
    if (problem_.only_home) return false;
    for (std::int32_t p = 0; p < problem_.ranks(); ++p) {
      if (at_home(expert, p) && holds(p, expert)) return true;
    }
    return false;
  }
  // Copies in their home node stay in it.
  bool may_move(std::int32_t expert, std::int32_t from, std::int32_t to) const {
    return !problem_.keep_home || problem_.node[at(from)] == problem_.node[at(to)] ||
           (!problem_.only_home && !at_home(expert, from));
  }

  const LayerProblem& problem_;
  std::span<const std::int32_t> copies_;
  std::vector<std::vector<std::int32_t>> on_;  // [P] experts
  std::vector<double> load_;                   // [P]
  std::vector<char> holds_;                    // [P, E]
  std::vector<std::int32_t> left_over_;        // experts of copies without a slot
};

}  // namespace

std::optional<std::vector<std::int32_t>> pack_copies(const LayerProblem& problem,
                                                     std::span<const std::int32_t> copies) {
  return Packer(problem, copies).pack();
}

}  // namespace waybill
