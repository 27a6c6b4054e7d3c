#include "placement/balance/slots.h"

#include <algorithm>

#include "placement/balance/index.h"

namespace waybill {
namespace {

// Entries of `after` that `before` doesn't have, each copy counted.
std::vector<std::int32_t> arrivals(const std::vector<std::int32_t>& before,
                                   const std::vector<std::int32_t>& after) {
  std::vector<std::int32_t> had = before, has = after, arrived;
  std::ranges::sort(had);
  std::ranges::sort(has);
  std::ranges::set_difference(has, had, std::back_inserter(arrived));
  return arrived;
}

std::int32_t arrivals_on(const SlotLists& before, const SlotLists& after, std::size_t rank) {
  static const std::vector<std::int32_t> kNone;
  const auto& had = rank < before.size() ? before[rank] : kNone;
  return static_cast<std::int32_t>(arrivals(had, after[rank]).size());
}

}  // namespace

std::vector<double> rank_loads(std::span<const double> load, const SlotLists& lists) {
  std::vector<std::int32_t> copies(load.size(), 0);
  for (const auto& list : lists) {
    for (std::int32_t e : list) ++copies[at(e)];
  }
  std::vector<double> loads;
  for (const auto& list : lists) {
    double sum = 0;
    for (std::int32_t e : list) sum += load[at(e)] / copies[at(e)];
    loads.push_back(sum);
  }
  return loads;
}

std::int32_t changed_slots(const SlotLists& before, const SlotLists& after) {
  std::int32_t changed = 0;
  for (std::size_t r = 0; r < after.size(); ++r) changed += arrivals_on(before, after, r);
  return changed;
}

std::int32_t most_changed_slots(const SlotLists& before, const SlotLists& after) {
  std::int32_t most = 0;
  for (std::size_t r = 0; r < after.size(); ++r) {
    most = std::max(most, arrivals_on(before, after, r));
  }
  return most;
}

SlotLists keep_positions(const SlotLists& before, SlotLists after) {
  for (std::size_t r = 0; r < std::min(before.size(), after.size()); ++r) {
    auto& list = after[r];
    for (std::size_t i = 0; i < std::min(before[r].size(), list.size()); ++i) {
      const auto here = list.begin() + static_cast<std::ptrdiff_t>(i);
      // Only from here on: experts before this position have found theirs.
      const auto same = std::find(here, list.end(), before[r][i]);
      if (same != list.end()) std::iter_swap(same, here);
    }
  }
  return after;
}

std::vector<ExpertId> without_copy(const SlotLists& lists, std::int32_t experts) {
  std::vector<std::int32_t> copies(at(experts), 0);
  for (const auto& list : lists) {
    for (std::int32_t e : list) ++copies[at(e)];
  }
  std::vector<ExpertId> missing;
  for (std::int32_t e = 0; e < experts; ++e) {
    if (copies[at(e)] == 0) missing.emplace_back(e);
  }
  return missing;
}

SlotLists lists_of(const LayerProblem& problem, std::span<const std::int32_t> experts) {
  SlotLists lists;
  for (std::int32_t p = 0; p < problem.ranks(); ++p) {
    const auto own = experts.subspan(at(problem.first_slot(p)), at(problem.slots_on(p)));
    lists.emplace_back(own.begin(), own.end());
  }
  return lists;
}

std::vector<std::int32_t> slots_of(const SlotLists& lists) {
  std::vector<std::int32_t> slots;
  for (const auto& list : lists) slots.insert(slots.end(), list.begin(), list.end());
  return slots;
}

}  // namespace waybill
