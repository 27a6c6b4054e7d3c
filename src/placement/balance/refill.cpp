#include "placement/balance/refill.h"

#include <algorithm>
#include <numeric>

#include "placement/balance/index.h"

namespace waybill {
namespace {

class Refill {
 public:
  Refill(const LayerProblem& problem, const SlotLists& lists)
      : problem_(problem),
        lists_(problem.slot_end.size()),
        copies_(problem.load.size(), 0),
        home_copies_(problem.load.size(), 0) {
    for (std::int32_t p = 0; p < problem.ranks(); ++p) {
      for (std::int32_t e : lists[at(p)]) {
        const bool foreign = problem.only_home && !at_home(e, p);
        if (!holds(p, e) && !foreign) seat(p, e);
      }
    }
    for (std::int32_t p = 0; p < problem.ranks(); ++p) {
      while (!fits(p, 0)) drop(p, most_copied(p));
    }
  }

  std::optional<SlotLists> run() {
    for (std::int32_t e : heaviest_first()) {
      if (!lacks(e)) continue;
      const std::int32_t p = rank_for(e);
      if (p < 0) return std::nullopt;
      if (!fits(p, 1)) drop(p, spare_on(p));
      seat(p, e);
    }
    for (std::int32_t p = 0; p < problem_.ranks(); ++p) {
      while (fits(p, 1)) {
        const std::int32_t e = heaviest_for(p);
        if (e < 0) return std::nullopt;
        seat(p, e);
      }
    }
    return lists_;
  }

 private:
  bool at_home(std::int32_t e, std::int32_t p) const {
    return !problem_.keep_home || problem_.node[at(p)] == problem_.home[at(e)];
  }
  bool holds(std::int32_t p, std::int32_t e) const {
    return std::ranges::find(lists_[at(p)], e) != lists_[at(p)].end();
  }
  bool fits(std::int32_t p, std::size_t more) const {
    return lists_[at(p)].size() + more <= at(problem_.slots_on(p));
  }
  bool lacks(std::int32_t e) const { return home_copies_[at(e)] == 0; }
  // Whether this copy can go without leaving its expert short.
  bool spare(std::int32_t p, std::int32_t e) const {
    return copies_[at(e)] > 1 && (!at_home(e, p) || home_copies_[at(e)] > 1);
  }
  double copy_load(std::int32_t e) const { return problem_.load[at(e)] / copies_[at(e)]; }

  void seat(std::int32_t p, std::int32_t e) {
    lists_[at(p)].push_back(e);
    ++copies_[at(e)];
    home_copies_[at(e)] += at_home(e, p) ? 1 : 0;
  }
  void drop(std::int32_t p, std::int32_t e) {
    std::erase(lists_[at(p)], e);
    --copies_[at(e)];
    home_copies_[at(e)] -= at_home(e, p) ? 1 : 0;
  }

  std::vector<std::int32_t> heaviest_first() const {
    std::vector<std::int32_t> order(problem_.load.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
      return problem_.load[at(a)] > problem_.load[at(b)];
    });
    return order;
  }
  std::int32_t most_copied(std::int32_t p) const {
    return *std::ranges::max_element(lists_[at(p)], {},
                                     [&](std::int32_t e) { return copies_[at(e)]; });
  }
  // The spare copy on a rank whose loss raises its expert's other copies least; -1: none.
  std::int32_t spare_on(std::int32_t p) const {
    std::int32_t best = -1;
    const auto raised = [&](std::int32_t e) { return problem_.load[at(e)] / (copies_[at(e)] - 1); };
    for (std::int32_t e : lists_[at(p)]) {
      if (spare(p, e) && (best < 0 || raised(e) < raised(best))) best = e;
    }
    return best;
  }
  // The rank with the least time that can take a copy, a free slot before a spare copy's; -1: none.
  std::int32_t rank_for(std::int32_t e) const {
    std::int32_t best = -1;
    double best_time = 0;
    bool best_free = false;
    for (std::int32_t p = 0; p < problem_.ranks(); ++p) {
      if (!at_home(e, p) || holds(p, e)) continue;
      const bool free = fits(p, 1);
      if (!free && (best_free || spare_on(p) < 0)) continue;
      const double time = rank_time(p);
      if (best >= 0 && free == best_free && time >= best_time) continue;
      best = p;
      best_time = time;
      best_free = free;
    }
    return best;
  }
  double rank_time(std::int32_t p) const {
    double load = 0;
    for (std::int32_t e : lists_[at(p)]) load += copy_load(e);
    return load / problem_.speed[at(p)];
  }
  std::int32_t heaviest_for(std::int32_t p) const {
    std::int32_t best = -1;
    for (std::int32_t e = 0; e < problem_.experts(); ++e) {
      if (holds(p, e) || (problem_.only_home && !at_home(e, p))) continue;
      if (best < 0 || copy_load(e) > copy_load(best) ||
          (copy_load(e) == copy_load(best) && copies_[at(e)] < copies_[at(best)])) {
        best = e;
      }
    }
    return best;
  }

  const LayerProblem& problem_;
  SlotLists lists_;
  std::vector<std::int32_t> copies_, home_copies_;  // [E]; without homes every copy is at home
};

}  // namespace

std::optional<SlotLists> refill(const LayerProblem& problem, const SlotLists& lists) {
  return Refill(problem, lists).run();
}

}  // namespace waybill
