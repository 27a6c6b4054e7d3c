#include "plan/row_division.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace waybill {
namespace {

// The state of the division: rows of each replica and the load they add up to on each rank.
class RowDivision {
 public:
  RowDivision(const Placement& placement, std::span<const std::int64_t> rows);

  // Divides the experts one after another, each level over the ranks that hold it.
  void fill(std::span<const std::int64_t> rows);
  // Moves rows off the fullest rank while that lowers it.
  void level();

  std::vector<std::int64_t> take() { return std::move(share_); }

 private:
  // An expert's rows that may move: from one of its replicas to another.
  struct Move {
    std::size_t from, to;  // indices of replicas
  };

  std::span<const std::size_t> replicas_on(std::size_t rank) const {
    return std::span(by_rank_).subspan(rank_begin_[rank],
                                       rank_begin_[rank + 1] - rank_begin_[rank]);
  }
  void fill_expert(std::size_t expert, std::int64_t rows);
  std::size_t fullest() const {
    return static_cast<std::size_t>(std::ranges::max_element(load_) - load_.begin());
  }
  bool find_path(std::size_t source, std::size_t& sink);
  void move_along_path(std::size_t source, std::size_t sink);

  std::vector<std::size_t> expert_begin_;  // [E+1] first replica of each expert
  std::vector<std::size_t> expert_;        // [Q] expert of each replica
  std::vector<std::size_t> rank_;          // [Q] rank of each replica
  std::vector<std::size_t> rank_begin_;    // [P+1] into by_rank_
  std::vector<std::size_t> by_rank_;       // [Q] replicas of experts that have several
  std::vector<std::int64_t> share_;        // [Q] rows of each replica
  std::vector<std::int64_t> load_;         // [P] rows of each rank

  std::vector<std::size_t> pool_;   // candidates of the expert being filled
  std::vector<bool> reached_;       // [P]
  std::vector<Move> arrival_;       // [P] move by which the search came to a rank
  std::vector<std::size_t> queue_;  // ranks in the order of the search
};

RowDivision::RowDivision(const Placement& placement, std::span<const std::int64_t> rows)
    : load_(static_cast<std::size_t>(placement.ranks()), 0),
      reached_(load_.size()),
      arrival_(load_.size()) {
  assert(rows.size() == static_cast<std::size_t>(placement.experts()));
  expert_begin_.push_back(0);
  for (std::size_t e = 0; e < rows.size(); ++e) {
    for (SlotId q : placement.replicas(ExpertId{static_cast<std::int32_t>(e)})) {
      expert_.push_back(e);
      rank_.push_back(placement.rank_of(q).index());
    }
    expert_begin_.push_back(rank_.size());
  }
  share_.assign(rank_.size(), 0);

  const auto movable = [&](std::size_t i) {
    return expert_begin_[expert_[i] + 1] - expert_begin_[expert_[i]] > 1;
  };
  rank_begin_.assign(load_.size() + 1, 0);
  for (std::size_t i = 0; i < rank_.size(); ++i) rank_begin_[rank_[i] + 1] += movable(i) ? 1 : 0;
  std::partial_sum(rank_begin_.begin(), rank_begin_.end(), rank_begin_.begin());
  by_rank_.resize(rank_begin_.back());
  std::vector<std::size_t> next(rank_begin_.begin(), rank_begin_.end() - 1);
  for (std::size_t i = 0; i < rank_.size(); ++i) {
    if (movable(i)) by_rank_[next[rank_[i]]++] = i;
  }
}

void RowDivision::fill(std::span<const std::int64_t> rows) {
  // Experts with one replica come first: their rows can't go elsewhere.
  std::vector<std::size_t> divided;
  for (std::size_t e = 0; e < rows.size(); ++e) {
    const std::size_t only = expert_begin_[e];
    if (expert_begin_[e + 1] - only > 1) {
      divided.push_back(e);
    } else {
      share_[only] = rows[e];
      load_[rank_[only]] += rows[e];
    }
  }
  std::ranges::stable_sort(divided,
                           [&](std::size_t a, std::size_t b) { return rows[a] > rows[b]; });
  for (std::size_t e : divided) fill_expert(e, rows[e]);
}

// Pours the rows over the replicas' ranks like water: the lowest ranks rise to one level.
void RowDivision::fill_expert(std::size_t expert, std::int64_t rows) {
  pool_.clear();
  for (std::size_t i = expert_begin_[expert]; i < expert_begin_[expert + 1]; ++i) {
    const bool rank_known =
        std::ranges::any_of(pool_, [&](std::size_t j) { return rank_[j] == rank_[i]; });
    if (!rank_known) pool_.push_back(i);
  }
  const auto load_of = [&](std::size_t i) { return load_[rank_[i]]; };
  std::ranges::stable_sort(pool_, {}, load_of);

  std::size_t wet = 0;
  std::int64_t water = rows;  // the rows plus the loads that they cover
  while (wet < pool_.size()) {
    const std::int64_t bottom = load_of(pool_[wet]);
    if (wet > 0 && bottom > (water - 1) / static_cast<std::int64_t>(wet)) break;
    water += bottom;
    ++wet;
  }
  const std::int64_t level = water / static_cast<std::int64_t>(wet);
  const std::int64_t remainder = water % static_cast<std::int64_t>(wet);
  for (std::size_t j = 0; j < wet; ++j) {
    const std::size_t i = pool_[j];
    const std::int64_t target = level + (static_cast<std::int64_t>(j) < remainder ? 1 : 0);
    share_[i] = target - load_of(i);
    load_[rank_[i]] = target;
  }
}

// Ends at the optimum: when no path is left, the ranks that the fullest one reaches all hold at
// least its load - 1, and their rows can't leave them.
void RowDivision::level() {
  for (std::size_t source = fullest(), sink = 0; find_path(source, sink); source = fullest()) {
    move_along_path(source, sink);
  }
}

// Breadth-first from `source` along replicas that hold rows to the other replicas of their expert,
// up to a rank that gains by taking one.
bool RowDivision::find_path(std::size_t source, std::size_t& sink) {
  std::fill(reached_.begin(), reached_.end(), false);
  reached_[source] = true;
  queue_.assign(1, source);
  for (std::size_t head = 0; head < queue_.size(); ++head) {
    for (std::size_t from : replicas_on(queue_[head])) {
      if (share_[from] == 0) continue;
      const std::size_t expert = expert_[from];
      for (std::size_t to = expert_begin_[expert]; to < expert_begin_[expert + 1]; ++to) {
        const std::size_t rank = rank_[to];
        if (reached_[rank]) continue;
        reached_[rank] = true;
        arrival_[rank] = {from, to};
        if (load_[source] - load_[rank] > 1) {
          sink = rank;
          return true;
        }
        queue_.push_back(rank);
      }
    }
  }
  return false;
}

void RowDivision::move_along_path(std::size_t source, std::size_t sink) {
  std::int64_t rows = (load_[source] - load_[sink]) / 2;
  for (std::size_t rank = sink; rank != source; rank = rank_[arrival_[rank].from]) {
    rows = std::min(rows, share_[arrival_[rank].from]);
  }
  for (std::size_t rank = sink; rank != source; rank = rank_[arrival_[rank].from]) {
    share_[arrival_[rank].from] -= rows;
    share_[arrival_[rank].to] += rows;
  }
  load_[source] -= rows;
  load_[sink] += rows;
}

}  // namespace

std::vector<std::int64_t> divide_rows(const Placement& placement,
                                      std::span<const std::int64_t> rows) {
  RowDivision division(placement, rows);
  division.fill(rows);
  division.level();
  return division.take();
}

}  // namespace waybill
