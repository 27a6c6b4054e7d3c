// Who sits in which slot while a solver works: loads and copy counts stay up to date under swaps
// and replacements. A copy of an expert carries an equal share of its load (reference text 0x08B).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "placement/balance/index.h"
#include "placement/balance/layer_problem.h"

namespace waybill {

class Assignment {
 public:
  // `experts` [slots]: at most one copy of an expert on a rank, every expert at least once, homes
  // kept as the problem asks. The problem must outlive this object.
  Assignment(const LayerProblem& problem, std::span<const std::int32_t> experts);

  const LayerProblem& problem() const { return *problem_; }
  std::span<const std::int32_t> experts() const { return expert_; }
  std::int32_t expert(std::int32_t slot) const { return expert_[at(slot)]; }
  std::int32_t rank(std::int32_t slot) const { return rank_[at(slot)]; }
  std::int32_t copies(std::int32_t expert) const { return copies_[at(expert)]; }
  // Load of one copy, now and if the expert had another number of copies.
  double share(std::int32_t expert) const { return share_[at(expert)]; }
  double share(std::int32_t expert, std::int32_t copies) const {
    return problem_->load[at(expert)] / copies;
  }
  bool holds(std::int32_t rank, std::int32_t expert) const {
    return holds_[at(rank) * share_.size() + at(expert)] != 0;
  }
  std::span<const std::int32_t> ranks_of(std::int32_t expert) const {
    return {ranks_of_.data() + at(expert) * rank_load_.size(), at(copies(expert))};
  }

  double rank_load(std::int32_t rank) const { return rank_load_[at(rank)]; }
  // Time of a rank under `load`; the slowest rank's time is the balance ratio, as the mean is 1.
  double time(std::int32_t rank, double load) const { return load * pace_[at(rank)]; }
  double time(std::int32_t rank) const { return time(rank, rank_load(rank)); }
  // Rises whenever a rank's experts or their loads change; never 0.
  std::uint32_t edition(std::int32_t rank) const { return edition_[at(rank)]; }
  std::int32_t slowest() const;  // the lowest among equals
  std::int32_t fastest() const;
  double ratio() const { return time(slowest()); }

  // Exchanges the experts of two slots on different ranks.
  bool can_swap(std::int32_t a, std::int32_t b) const;
  void swap(std::int32_t a, std::int32_t b);
  // Gives a slot to another expert: the old one loses a copy, the new one gains it.
  bool can_replace(std::int32_t slot, std::int32_t expert) const;
  void replace(std::int32_t slot, std::int32_t expert);

 private:
  bool at_home(std::int32_t expert, std::int32_t rank) const {
    return problem_->node[at(rank)] == problem_->home[at(expert)];
  }
  bool may_move(std::int32_t expert, std::int32_t from, std::int32_t to) const;
  void seat(std::int32_t slot, std::int32_t expert);
  void unseat(std::int32_t slot);
  void share_among(std::int32_t expert, std::int32_t copies);

  const LayerProblem* problem_;
  std::vector<std::int32_t> expert_, rank_;         // [slots]
  std::vector<std::int32_t> copies_, home_copies_;  // [E]; in the home node
  std::vector<double> share_;                       // [E]
  std::vector<double> rank_load_, pace_;            // [P]; pace: 1 / speed
  std::vector<std::uint32_t> edition_;              // [P]
  std::vector<char> holds_;                         // [P, E]
  std::vector<std::int32_t> ranks_of_;              // [E, P], the first copies(e) of each row
};

}  // namespace waybill
