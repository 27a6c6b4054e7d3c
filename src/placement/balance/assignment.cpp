#include "placement/balance/assignment.h"

#include <algorithm>
#include <cassert>

namespace waybill {

Assignment::Assignment(const LayerProblem& problem, std::span<const std::int32_t> experts)
    : problem_(&problem),
      expert_(experts.size(), -1),
      rank_(experts.size()),
      copies_(problem.load.size(), 0),
      home_copies_(problem.load.size(), 0),
      share_(problem.load.size()),
      rank_load_(problem.slot_end.size(), 0),
      edition_(problem.slot_end.size(), 1),
      holds_(problem.load.size() * problem.slot_end.size(), 0),
      ranks_of_(problem.load.size() * problem.slot_end.size()) {
  for (std::int32_t e : experts) ++copies_[at(e)];
  for (std::size_t e = 0; e < share_.size(); ++e) share_[e] = problem.load[e] / copies_[e];
  std::ranges::fill(copies_, 0);
  for (double speed : problem.speed) pace_.push_back(1 / speed);
  for (std::int32_t p = 0; p < problem.ranks(); ++p) {
    for (std::int32_t q = problem.first_slot(p); q < problem.slot_end[at(p)]; ++q) {
      rank_[at(q)] = p;
      seat(q, experts[at(q)]);
    }
  }
}

std::int32_t Assignment::slowest() const {
  std::int32_t slowest = 0;
  for (std::int32_t p = 1; p < problem_->ranks(); ++p) {
    if (time(p) > time(slowest)) slowest = p;
  }
  return slowest;
}

std::int32_t Assignment::fastest() const {
  std::int32_t fastest = 0;
  for (std::int32_t p = 1; p < problem_->ranks(); ++p) {
    if (time(p) < time(fastest)) fastest = p;
  }
  return fastest;
}

bool Assignment::may_move(std::int32_t expert, std::int32_t from, std::int32_t to) const {
  if (!problem_->keep_home || at_home(expert, to)) return true;
  return !problem_->only_home && (!at_home(expert, from) || home_copies_[at(expert)] > 1);
}

bool Assignment::can_swap(std::int32_t a, std::int32_t b) const {
  const std::int32_t p = rank(a), q = rank(b), e = expert(a), f = expert(b);
  return p != q && !holds(p, f) && !holds(q, e) && may_move(e, p, q) && may_move(f, q, p);
}

void Assignment::swap(std::int32_t a, std::int32_t b) {
  const std::int32_t e = expert(a), f = expert(b);
  unseat(a);
  unseat(b);
  seat(a, f);
  seat(b, e);
}

bool Assignment::can_replace(std::int32_t slot, std::int32_t expert) const {
  const std::int32_t p = rank(slot), leaving = this->expert(slot);
  if (copies(leaving) < 2 || holds(p, expert)) return false;
  if (!problem_->keep_home) return true;
  if (at_home(leaving, p) && home_copies_[at(leaving)] < 2) return false;
  return !problem_->only_home || at_home(expert, p);
}

void Assignment::replace(std::int32_t slot, std::int32_t expert) {
  const std::int32_t leaving = this->expert(slot);
  unseat(slot);
  share_among(leaving, copies(leaving));
  share_among(expert, copies(expert) + 1);
  seat(slot, expert);
}

void Assignment::seat(std::int32_t slot, std::int32_t expert) {
  const std::int32_t p = rank(slot);
  assert(!holds(p, expert));
  expert_[at(slot)] = expert;
  holds_[at(p) * share_.size() + at(expert)] = 1;
  ranks_of_[at(expert) * rank_load_.size() + at(copies_[at(expert)]++)] = p;
  home_copies_[at(expert)] += at_home(expert, p) ? 1 : 0;
  rank_load_[at(p)] += share(expert);
  ++edition_[at(p)];
}

void Assignment::unseat(std::int32_t slot) {
  const std::int32_t p = rank(slot), expert = expert_[at(slot)];
  holds_[at(p) * share_.size() + at(expert)] = 0;
  const std::span<std::int32_t> ranks(ranks_of_.data() + at(expert) * rank_load_.size(),
                                      at(copies_[at(expert)]--));
  *std::ranges::find(ranks, p) = ranks.back();
  home_copies_[at(expert)] -= at_home(expert, p) ? 1 : 0;
  rank_load_[at(p)] -= share(expert);
}

// Every rank that holds the expert now carries its load over `copies`.
void Assignment::share_among(std::int32_t expert, std::int32_t copies) {
  const double before = share(expert), after = share(expert, copies);
  share_[at(expert)] = after;
  for (std::int32_t p : ranks_of(expert)) {
    rank_load_[at(p)] += after - before;
    ++edition_[at(p)];
  }
}

}  // namespace waybill
