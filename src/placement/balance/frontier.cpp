#include "placement/balance/frontier.h"

#include <algorithm>
#include <utility>

#include "placement/balance/assignment.h"
#include "placement/balance/index.h"
#include "placement/balance/local_search.h"
#include "placement/balance/solve_layer.h"

namespace waybill {
namespace {

// Which rank holds which expert in force.
class InForce {
 public:
  InForce(const LayerProblem& problem, const SlotLists& lists)
      : experts_(problem.load.size()), holds_(problem.slot_end.size() * experts_, 0) {
    for (std::size_t p = 0; p < lists.size(); ++p) {
      for (std::int32_t e : lists[p]) holds_[p * experts_ + at(e)] = 1;
    }
  }
  bool holds(std::int32_t rank, std::int32_t expert) const {
    return holds_[at(rank) * experts_ + at(expert)] != 0;
  }
  Candidate candidate(const Assignment& assignment) const {
    const LayerProblem& problem = assignment.problem();
    const auto experts = assignment.experts();
    Candidate made{{experts.begin(), experts.end()}, assignment.ratio(), 0, 0};
    for (std::int32_t p = 0; p < problem.ranks(); ++p) {
      std::int32_t changed = 0;
      for (std::int32_t q = problem.first_slot(p); q < problem.slot_end[at(p)]; ++q) {
        changed += holds(p, experts[at(q)]) ? 0 : 1;
      }
      made.changed += changed;
      made.most_changed = std::max(made.most_changed, changed);
    }
    return made;
  }

 private:
  std::size_t experts_;
  std::vector<char> holds_;  // [P, E]
};

// Renames ranks so that most experts stay where they are, the best-matching pair first.
SlotLists match_ranks(const LayerProblem& problem, SlotLists lists, const InForce& in_force) {
  struct Pair {
    std::int64_t kept;
    std::int32_t list, rank;
  };
  std::vector<Pair> pairs;
  for (std::int32_t list = 0; list < problem.ranks(); ++list) {
    for (std::int32_t rank = 0; rank < problem.ranks(); ++rank) {
      if (!problem.interchangeable(list, rank)) continue;
      const auto stays = [&](std::int32_t e) { return in_force.holds(rank, e); };
      pairs.push_back({std::ranges::count_if(lists[at(list)], stays), list, rank});
    }
  }
  std::ranges::stable_sort(pairs, [](const Pair& a, const Pair& b) { return a.kept > b.kept; });
  SlotLists named(lists.size());
  std::vector<char> done(lists.size(), 0);
  for (const Pair& pair : pairs) {
    if (done[at(pair.list)] != 0 || !named[at(pair.rank)].empty()) continue;
    done[at(pair.list)] = 1;
    named[at(pair.rank)] = std::move(lists[at(pair.list)]);
  }
  return named;
}

}  // namespace

std::vector<Candidate> frontier(const LayerProblem& problem, const SlotLists& start,
                                const SlotLists& in_force) {
  const InForce held(problem, in_force);
  Assignment now(problem, slots_of(start));
  std::vector<Candidate> reached{held.candidate(now)};
  const SearchLimits limits{.goal = kEvenEnough, .candidates = kSearchCandidates};
  lower_slowest(now, limits, [&] {
    // A move off one of several equally slow ranks doesn't lower the ratio yet.
    if (now.ratio() < reached.back().ratio) reached.push_back(held.candidate(now));
  });
  return reached;
}

Candidate from_scratch(const LayerProblem& problem, std::vector<std::int32_t> experts,
                       const SlotLists& in_force) {
  const InForce held(problem, in_force);
  if (!in_force.empty()) {
    experts = slots_of(match_ranks(problem, lists_of(problem, experts), held));
  }
  return held.candidate(Assignment(problem, experts));
}

}  // namespace waybill
