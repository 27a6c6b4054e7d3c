#include "placement/balance/local_search.h"

#include <algorithm>
#include <span>

#include "placement/balance/index.h"
#include "placement/balance/picks.h"

namespace waybill {
namespace {

// Smallest relative gain that counts, well above rounding.
constexpr double kGain = 1e-9;

class Search {
 public:
  explicit Search(Assignment& assignment)
      : now_(assignment),
        problem_(assignment.problem()),
        singles_(assignment, 1),
        pairs_(assignment, 2) {}

  // One move away from the slowest rank; false when there is none.
  bool step(std::int32_t slowest) {
    slowest_ = slowest;
    best_ = now_.time(slowest_) * (1 - kGain);
    return exchange(singles_) || exchange(pairs_) || replace();
  }
  std::int64_t candidates() const { return candidates_; }

 private:
  // The exchange of picks with another rank that leaves the slower of the two fastest.
  bool exchange(Picks& picks) {
    give_ = get_ = {0, -1, -1};
    // The fastest rank first: a good exchange with it rules out most others.
    const std::int32_t fastest = now_.fastest();
    consider(fastest, picks);
    for (std::int32_t p = 0; p < problem_.ranks(); ++p) {
      if (p != fastest) consider(p, picks);
    }
    if (give_.first < 0) return false;
    now_.swap(give_.first, get_.first);
    if (give_.second >= 0) now_.swap(give_.second, get_.second);
    return true;
  }
  void consider(std::int32_t partner, Picks& picks) {
    if (partner == slowest_ || even_with(partner) >= best_) return;
    const std::span<const Pick> own = picks.of(slowest_), other = picks.of(partner);
    candidates_ += static_cast<std::int64_t>(own.size() + other.size());
    Window window = window_with(partner);
    std::size_t low = 0;  // the first of theirs that may be small enough for mine
    for (const Pick& mine : own) {
      while (low < other.size() && mine.load - other[low].load >= window.most) ++low;
      for (std::size_t i = low; i < other.size(); ++i) {
        const double moved = mine.load - other[i].load;
        if (moved <= window.least) break;
        ++candidates_;
        const double after = slower_of_two(partner, moved);
        if (after >= best_ || !can_exchange(mine, other[i])) continue;
        best_ = after;
        window = window_with(partner);
        give_ = mine;
        get_ = other[i];
      }
    }
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
  // Between these, load that moves to the partner leaves both ranks faster than best_.
  struct Window {
    double least, most;
  };
  Window window_with(std::int32_t partner) const {
    return {now_.rank_load(slowest_) - best_ * problem_.speed[at(slowest_)],
            best_ * problem_.speed[at(partner)] - now_.rank_load(partner)};
  }

  // The replacement of one copy that leaves the slowest of the ranks that it touches fastest.
  bool replace() {
    std::int32_t best_slot = -1, best_expert = -1;
    const auto consider = [&](std::int32_t slot, std::int32_t expert) {
      ++candidates_;
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
  Picks singles_, pairs_;
  Pick give_{}, get_{};
};

}  // namespace

std::int64_t lower_slowest(Assignment& assignment, const SearchLimits& limits,
                           const std::function<void()>& after_move) {
  Search search(assignment);
  while (search.candidates() < limits.candidates) {
    const std::int32_t slowest = assignment.slowest();
    if (assignment.time(slowest) <= limits.goal || !search.step(slowest)) break;
    if (after_move) after_move();
  }
  return search.candidates();
}

}  // namespace waybill
