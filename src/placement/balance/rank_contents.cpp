#include "placement/balance/rank_contents.h"

#include <algorithm>

#include "placement/balance/index.h"

namespace waybill {
namespace {

// Loads are sums of quotients: equal ones may differ in the last bits.
constexpr double kRounding = 1e-9;
// Steps of the enumeration for each content that may come of it.
constexpr std::size_t kStepsPerContent = 1000;

class Filling {
 public:
  Filling(const LayerProblem& problem, double ratio, std::size_t limit)
      : problem_(problem), ratio_(ratio), limit_(limit), steps_left_(limit * kStepsPerContent) {}

  // False when the limit is passed.
  bool fill(std::int32_t kind, std::int32_t rank) {
    rank_ = rank;
    const double speed = problem_.speed[at(rank)];
    most_ = ratio_ * speed + kRounding;
    least_ = problem_.ranks() - ratio_ * (problem_.ranks() - speed) - kRounding;
    content_ = {kind, {}};
    return extend(0, problem_.slots_on(rank), problem_.slots() - problem_.experts(), 0);
  }
  std::vector<RankContent> take() { return std::move(found_); }

 private:
  // Adds experts from `first` on to the `free` slots that are left; `spare` copies past each
  // expert's first may still be given.
  bool extend(std::int32_t first, std::int32_t free, std::int32_t spare, double load) {
    if (steps_left_-- == 0) return false;
    if (free == 0) {
      if (load < least_) return true;
      found_.push_back(content_);
      return found_.size() <= limit_;
    }
    for (std::int32_t e = first; e + free <= problem_.experts(); ++e) {
      if (!may_hold(e)) continue;
      for (std::int32_t copies = 1; copies <= std::min(spare + 1, problem_.ranks()); ++copies) {
        const double with = load + problem_.load[at(e)] / copies;
        if (with > most_) continue;
        content_.held.push_back({e, copies});
        const bool within = extend(e + 1, free - 1, spare - (copies - 1), with);
        content_.held.pop_back();
        if (!within) return false;
      }
    }
    return true;
  }
  bool may_hold(std::int32_t expert) const {
    return !problem_.only_home || problem_.node[at(rank_)] == problem_.home[at(expert)];
  }

  const LayerProblem& problem_;
  double ratio_, most_ = 0, least_ = 0;
  std::size_t limit_, steps_left_;
  std::int32_t rank_ = 0;
  RankContent content_{};
  std::vector<RankContent> found_;
};

}  // namespace

std::vector<RankKind> rank_kinds(const LayerProblem& problem) {
  std::vector<RankKind> kinds;
  for (std::int32_t p = 0; p < problem.ranks(); ++p) {
    const auto same = [&](const RankKind& kind) { return problem.interchangeable(kind[0], p); };
    const auto kind = std::ranges::find_if(kinds, same);
    if (kind == kinds.end()) {
      kinds.push_back({p});
    } else {
      kind->push_back(p);
    }
  }
  return kinds;
}

std::int32_t most_copies(const LayerProblem& problem) {
  return std::min(problem.ranks(), problem.slots() - problem.experts() + 1);
}

std::optional<std::vector<RankContent>> rank_contents(const LayerProblem& problem,
                                                      const std::vector<RankKind>& kinds,
                                                      double ratio, std::size_t limit) {
  Filling filling(problem, ratio, limit);
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    if (!filling.fill(static_cast<std::int32_t>(kind), kinds[kind][0])) return std::nullopt;
  }
  return filling.take();
}

}  // namespace waybill
