// Who sits in which slot while a solver works: loads and copy counts stay up to date under swaps
// and replacements. A copy of an expert carries an equal share of its load (reference text 0x08B).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "placement/balance/layer_problem.h"

namespace waybill {

class Assignment {
 public:
  // `experts` [slots]: at most one copy of an expert on a rank, every expert at least once, homes
  // kept as the problem asks.
  Assignment(const LayerProblem& problem, std::span<const std::int32_t> experts);

  const LayerProblem& problem() const { return *problem_; }
  std::span<const std::int32_t> experts() const { return expert_; }
  std::int32_t expert(std::int32_t slot) const { return expert_[at(slot)]; }
  std::int32_t rank(std::int32_t slot) const { return rank_[at(slot)]; }
  std::int32_t copies(std::int32_t expert) const { return copies_[at(expert)]; }
  // Load of one copy.
  double share(std::int32_t expert) const { return share_[at(expert)]; }
  // Share of an expert if it had `copies`.
  double share_of(std::int32_t expert, std::int32_t copies) const {
    return problem_->load[at(expert)] / copies;
  }
  double rank_load(std::int32_t rank) const { return rank_load_[at(rank)]; }
  // Load over speed: what the slowest rank is judged by; its mean over ranks is 1.
  double time(std::int32_t rank) const { return rank_load_[at(rank)] / problem_->speed[at(rank)]; }
  bool holds(std::int32_t rank, std::int32_t expert) const {
    return holds_[at(rank) * experts_ + at(expert)] != 0;
  }
  std::span<const std::int32_t> ranks_of(std::int32_t expert) const {
    return ranks_of_[at(expert)];
  }
  std::int32_t slowest() const;

  bool can_swap(std::int32_t a, std::int32_t b) const;
  void swap(std::int32_t a, std::int32_t b);
  // Whether the slot's expert can give it up to another expert.
  bool can_replace(std::int32_t slot, std::int32_t expert) const;
  void replace(std::int32_t slot, std::int32_t expert);

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  bool may_leave(std::int32_t expert, std::int32_t from, std::int32_t to) const;
  void put(std::int32_t slot, std::int32_t expert);
  void take(std::int32_t slot);
  void change_copies(std::int32_t expert, std::int32_t copies);

  const LayerProblem* problem_;
  std::size_t experts_;
  std::vector<std::int32_t> expert_, rank_;  // [slots]
  std::vector<std::int32_t> copies_;         // [E]
  std::vector<std::int32_t> home_copies_;    // [E] copies in the home node
  std::vector<double> share_;                // [E]
  std::vector<double> rank_load_;            // [P]
  std::vector<char> holds_;                  // [P, E]
  std::vector<std::vector<std::int32_t>> ranks_of_;  // [E]
};

}  // namespace waybill
