#include "placement/balance/local_search.h"

#include <algorithm>
#include <cmath>

namespace waybill {
namespace {

// Smallest relative gain that counts, well above rounding.
constexpr double kGain = 1e-9;

// One or two slots of a rank and the load of their copies.
struct Pick {
  double load;
  std::int32_t first, second;  // second: -1 for one slot
};

class Search {
 public:
  explicit Search(Assignment& assignment) : now_(assignment), problem_(assignment.problem()) {}

  // One move away from the slowest rank; false when there is none.
  bool step(std::int32_t slowest) {
    slowest_ = slowest;
    best_ = now_.time(slowest_) * (1 - kGain);
    return exchange(&Search::single_slots) || replace() || exchange(&Search::pairs_of_slots);
  }
  std::int64_t candidates() const { return candidates_; }

 private:
  using Picks = std::vector<Pick>;
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

  void single_slots(std::int32_t rank, Picks& picks) const {
    picks.clear();
    for (std::int32_t q = problem_.first_slot(rank); q < problem_.slot_end[at(rank)]; ++q) {
      picks.push_back({now_.share(now_.expert(q)), q, -1});
    }
  }
  void pairs_of_slots(std::int32_t rank, Picks& picks) const {
    picks.clear();
    for (std::int32_t q = problem_.first_slot(rank); q < problem_.slot_end[at(rank)]; ++q) {
      for (std::int32_t r = problem_.first_slot(rank); r < q; ++r) {
        picks.push_back({now_.share(now_.expert(q)) + now_.share(now_.expert(r)), q, r});
      }
    }
  }

  // The exchange of slots with another rank that leaves the slower of the two fastest.
  bool exchange(void (Search::*picks_of)(std::int32_t, Picks&) const) {
    Pick give{0, -1, -1}, get{0, -1, -1};
    (this->*picks_of)(slowest_, own_);
    const auto consider = [&](std::int32_t partner) {
      if (partner == slowest_ || even_with(partner) >= best_) return;
      (this->*picks_of)(partner, other_);
      candidates_ += static_cast<std::int64_t>(own_.size() * other_.size());
      Window window = window_with(partner);
      for (const Pick& mine : own_) {
        for (const Pick& theirs : other_) {
          // Outside the window the slower of the two ranks stays at best_ or above.
          if (std::abs(mine.load - theirs.load - window.centre) >= window.reach) continue;
          if (!can_exchange(mine, theirs)) continue;
          best_ = slower_of_two(partner, mine.load - theirs.load);
          window = window_with(partner);
          give = mine;
          get = theirs;
        }
      }
    };
    // The fastest rank first: a good exchange with it rules out most others.
    const std::int32_t fastest = now_.fastest();
    consider(fastest);
    for (std::int32_t p = 0; p < problem_.ranks(); ++p) {
      if (p != fastest) consider(p);
    }
    if (give.first < 0) return false;
    now_.swap(give.first, get.first);
    if (give.second >= 0) now_.swap(give.second, get.second);
    return true;
  }
  bool can_exchange(const Pick& mine, const Pick& theirs) const {
    return now_.can_swap(mine.first, theirs.first) &&
           (mine.second < 0 || now_.can_swap(mine.second, theirs.second));
  }
  // Time of both ranks if they shared their load evenly: no exchange does better.
  double even_with(std::int32_t partner) const {
    return (now_.rank_load(slowest_) + now_.rank_load(partner)) /
           (problem_.speed[at(slowest_)] + problem_.speed[at(partner)]);
  }
  double slower_of_two(std::int32_t partner, double moved) const {
    return std::max(now_.time(slowest_, now_.rank_load(slowest_) - moved),
                    now_.time(partner, now_.rank_load(partner) + moved));
  }
  // The loads whose move to the partner leaves both ranks faster than best_.
  struct Window {
    double centre, reach;
  };
  Window window_with(std::int32_t partner) const {
    const double least = now_.rank_load(slowest_) - best_ * problem_.speed[at(slowest_)];
    const double most = best_ * problem_.speed[at(partner)] - now_.rank_load(partner);
    return {(least + most) / 2, (most - least) / 2};
  }

  // The replacement of one copy that leaves the slowest of the ranks that it touches fastest.
  bool replace() {
    std::int32_t best_slot = -1, best_expert = -1;
    const auto consider = [&](std::int32_t slot, std::int32_t expert) {
      if (!now_.can_replace(slot, expert)) return;
      const double after = after_replacing(slot, expert);
      if (after >= best_) return;
      best_ = after;
      best_slot = slot;
      best_expert = expert;
    };
    for (std::int32_t own = problem_.first_slot(slowest_); own < problem_.slot_end[at(slowest_)];
         ++own) {
      // Another expert takes this slot, or this slot's expert gains a copy elsewhere.
      if (now_.copies(now_.expert(own)) > 1) {
        for (std::int32_t e = 0; e < problem_.experts(); ++e) consider(own, e);
      }
      for (std::int32_t other = 0; other < problem_.slots(); ++other) {
        if (now_.copies(now_.expert(other)) > 1) consider(other, now_.expert(own));
      }
    }
    if (best_slot < 0) return false;
    now_.replace(best_slot, best_expert);
    return true;
  }
  // Stops early, with best_ or more, when the replacement is no better than that.
  double after_replacing(std::int32_t slot, std::int32_t expert) {
    ++candidates_;
    const std::int32_t rank = now_.rank(slot), leaving = now_.expert(slot);
    const double gained = now_.share(expert, now_.copies(expert) + 1);
    const double fall = now_.share(expert) - gained;
    double after = now_.time(rank, now_.rank_load(rank) - now_.share(leaving) + gained);
    if (rank != slowest_ && !now_.holds(slowest_, leaving)) {
      after = std::max(after, now_.time(slowest_, now_.rank_load(slowest_) - fall));
    }
    if (after >= best_) return after;
    const double rise = now_.share(leaving, now_.copies(leaving) - 1) - now_.share(leaving);
    for (std::int32_t p : now_.ranks_of(leaving)) {
      if (p == rank) continue;
      const double load = now_.rank_load(p) + rise - (now_.holds(p, expert) ? fall : 0);
      after = std::max(after, now_.time(p, load));
      if (after >= best_) break;
    }
    return after;
  }

  Assignment& now_;
  const LayerProblem& problem_;
  std::int32_t slowest_ = 0;
  double best_ = 0;  // time to beat
  std::int64_t candidates_ = 0;
  Picks own_, other_;
};

}  // namespace

SearchWork lower_slowest(Assignment& assignment, const SearchLimits& limits) {
  Search search(assignment);
  std::int64_t moves = 0;
  while (moves < limits.moves && search.candidates() < limits.candidates) {
    const std::int32_t slowest = assignment.slowest();
    if (assignment.time(slowest) <= limits.goal || !search.step(slowest)) break;
    ++moves;
  }
  return {search.candidates(), moves};
}

}  // namespace waybill
