#include "placement/balance/local_search.h"

#include <algorithm>
#include <array>

namespace waybill {
namespace {

// Smallest relative gain that counts, well above rounding.
constexpr double kGain = 1e-9;

class Search {
 public:
  explicit Search(Assignment& assignment) : now_(assignment), problem_(assignment.problem()) {}

  // One move away from the slowest rank; false when there is none.
  bool step() {
    slowest_ = now_.slowest();
    limit_ = now_.time(slowest_) * (1 - kGain);
    return swap_one() || replace_one() || swap_two();
  }
  std::int64_t candidates() const { return candidates_; }

 private:
  struct Slots {
    std::int32_t begin, end;
  };
  Slots slots_of(std::int32_t rank) const {
    return {problem_.first_slot(rank), problem_.slot_end[static_cast<std::size_t>(rank)]};
  }
  // Time of the slower of two ranks if `moved` load went from the slowest rank to `to`.
  double after_moving(double moved, std::int32_t to) const {
    return std::max(now_.time(slowest_, now_.rank_load(slowest_) - moved),
                    now_.time(to, now_.rank_load(to) + moved));
  }
  // No exchange with `rank` can end below this: both ranks at equal time.
  double best_with(std::int32_t rank) const {
    const auto at = [](std::int32_t i) { return static_cast<std::size_t>(i); };
    return (now_.rank_load(slowest_) + now_.rank_load(rank)) /
           (problem_.speed[at(slowest_)] + problem_.speed[at(rank)]);
  }
  // The fastest rank first, so that its good exchange rules out most of the others.
  template <class Visit>
  void for_partners(Visit&& visit) {
    std::int32_t fastest = 0;
    for (std::int32_t p = 1; p < problem_.ranks(); ++p) {
      if (now_.time(p) < now_.time(fastest)) fastest = p;
    }
    visit(fastest);
    for (std::int32_t p = 0; p < problem_.ranks(); ++p) {
      if (p != fastest) visit(p);
    }
  }

  bool swap_one() {
    double best = limit_;
    std::int32_t best_a = -1, best_b = -1;
    const Slots from = slots_of(slowest_);
    for_partners([&](std::int32_t partner) {
      if (partner == slowest_ || best_with(partner) >= best) return;
      const Slots to = slots_of(partner);
      candidates_ += (from.end - from.begin) * (to.end - to.begin);
      for (std::int32_t a = from.begin; a < from.end; ++a) {
        const double share = now_.share(now_.expert(a));
        for (std::int32_t b = to.begin; b < to.end; ++b) {
          const double after = after_moving(share - now_.share(now_.expert(b)), partner);
          if (after < best && now_.can_swap(a, b)) {
            best = after;
            best_a = a;
            best_b = b;
          }
        }
      }
    });
    if (best_a < 0) return false;
    now_.swap(best_a, best_b);
    return true;
  }

  // Slowest of the ranks that a replacement touches, `bound` or more when it is no better.
  double after_replacing(std::int32_t slot, std::int32_t expert, double bound) {
    const std::int32_t q = now_.rank(slot), leaving = now_.expert(slot);
    const double rise = now_.share(leaving, now_.copies(leaving) - 1) - now_.share(leaving);
    const double gained = now_.share(expert, now_.copies(expert) + 1);
    const double fall = now_.share(expert) - gained;
    candidates_ += now_.copies(leaving);
    double after = now_.time(q, now_.rank_load(q) - now_.share(leaving) + gained);
    if (q != slowest_ && now_.holds(slowest_, expert) && !now_.holds(slowest_, leaving)) {
      after = std::max(after, now_.time(slowest_, now_.rank_load(slowest_) - fall));
    }
    for (std::int32_t p : now_.ranks_of(leaving)) {
      if (after >= bound) return after;
      if (p == q) continue;
      const double load = now_.rank_load(p) + rise - (now_.holds(p, expert) ? fall : 0);
      after = std::max(after, now_.time(p, load));
    }
    return after;
  }

  bool replace_one() {
    double best = limit_;
    std::int32_t best_slot = -1, best_expert = -1;
    const auto consider = [&](std::int32_t slot, std::int32_t expert) {
      if (!now_.can_replace(slot, expert)) return;
      const double after = after_replacing(slot, expert, best);
      if (after < best) {
        best = after;
        best_slot = slot;
        best_expert = expert;
      }
    };
    const Slots own = slots_of(slowest_);
    for (std::int32_t slot = own.begin; slot < own.end; ++slot) {
      // Another expert takes this copy's slot, or this slot's expert gains a copy elsewhere.
      if (now_.copies(now_.expert(slot)) > 1) {
        for (std::int32_t e = 0; e < problem_.experts(); ++e) consider(slot, e);
      }
      for (std::int32_t other = 0; other < problem_.slots(); ++other) {
        if (now_.copies(now_.expert(other)) > 1) consider(other, now_.expert(slot));
      }
    }
    if (best_slot < 0) return false;
    now_.replace(best_slot, best_expert);
    return true;
  }

  bool swap_two() {
    double best = limit_;
    std::array<std::int32_t, 4> slots{-1, -1, -1, -1};
    const Slots from = slots_of(slowest_);
    for_partners([&](std::int32_t partner) {
      if (partner == slowest_ || best_with(partner) >= best) return;
      const Slots to = slots_of(partner);
      for (std::int32_t a = from.begin; a < from.end; ++a) {
        for (std::int32_t b = to.begin; b < to.end; ++b) {
          if (!now_.can_swap(a, b)) continue;
          const double first = now_.share(now_.expert(a)) - now_.share(now_.expert(b));
          candidates_ += (from.end - a) * (to.end - to.begin);
          for (std::int32_t c = a + 1; c < from.end; ++c) {
            const double both = first + now_.share(now_.expert(c));
            for (std::int32_t d = to.begin; d < to.end; ++d) {
              const double after = after_moving(both - now_.share(now_.expert(d)), partner);
              if (after < best && d != b && now_.can_swap(c, d)) {
                best = after;
                slots = {a, b, c, d};
              }
            }
          }
        }
      }
    });
    if (slots[0] < 0) return false;
    now_.swap(slots[0], slots[1]);
    now_.swap(slots[2], slots[3]);
    return true;
  }

  Assignment& now_;
  const LayerProblem& problem_;
  std::int32_t slowest_ = 0;
  double limit_ = 0;
  std::int64_t candidates_ = 0;
};

}  // namespace

std::int64_t lower_slowest(Assignment& assignment, const SearchLimits& limits) {
  Search search(assignment);
  while (assignment.ratio() > limits.goal && search.candidates() < limits.candidates &&
         search.step()) {
  }
  return search.candidates();
}

}  // namespace waybill
