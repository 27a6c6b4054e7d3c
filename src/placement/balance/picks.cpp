#include "placement/balance/picks.h"

#include <algorithm>

namespace waybill {

Picks::Picks(const Assignment& assignment, std::int32_t size)
    : now_(assignment),
      size_(size),
      picks_(assignment.problem().slot_end.size()),
      edition_(assignment.problem().slot_end.size(), 0) {}

std::span<const Pick> Picks::of(std::int32_t rank) {
  const auto r = static_cast<std::size_t>(rank);
  if (edition_[r] != now_.edition(rank)) {
    make(rank, picks_[r]);
    edition_[r] = now_.edition(rank);
  }
  return picks_[r];
}

void Picks::make(std::int32_t rank, std::vector<Pick>& picks) const {
  picks.clear();
  const LayerProblem& problem = now_.problem();
  const std::int32_t begin = problem.first_slot(rank), end = begin + problem.slots_on(rank);
  for (std::int32_t q = begin; q < end; ++q) {
    const double load = now_.share(now_.expert(q));
    if (size_ == 1) {
      picks.push_back({load, q, -1});
    } else {
      for (std::int32_t r = begin; r < q; ++r) {
        picks.push_back({load + now_.share(now_.expert(r)), q, r});
      }
    }
  }
  std::ranges::sort(picks, [](const Pick& a, const Pick& b) {
    if (a.load != b.load) return a.load < b.load;
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  });
}

}  // namespace waybill
