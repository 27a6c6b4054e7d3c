// One layer's balancing problem in plain arrays, as every step of the solver reads it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace waybill {

struct LayerProblem {
  std::vector<double> load;            // [E] in units of the mean rank load; the sum is P
  std::vector<double> speed;           // [P] relative, the sum is P
  std::vector<std::int32_t> slot_end;  // [P] rank p owns slots [slot_end[p-1], slot_end[p])
  std::vector<std::int32_t> node;      // [P] of each rank
  std::vector<std::int32_t> home;      // [E] node that the expert's group belongs to
  std::int32_t nodes = 1;
  bool keep_home = false;  // at least one copy of each expert stays in its home node
  bool only_home = false;  // all of them do

  std::int32_t experts() const { return static_cast<std::int32_t>(load.size()); }
  std::int32_t ranks() const { return static_cast<std::int32_t>(slot_end.size()); }
  std::int32_t slots() const { return slot_end.back(); }
  std::int32_t first_slot(std::int32_t rank) const {
    return rank == 0 ? 0 : slot_end[static_cast<std::size_t>(rank) - 1];
  }
  std::int32_t slots_on(std::int32_t rank) const {
    return slot_end[static_cast<std::size_t>(rank)] - first_slot(rank);
  }
  // Whether two ranks stand for each other: exchanging all that they hold changes nothing.
  bool interchangeable(std::int32_t rank, std::int32_t other) const {
    const auto a = static_cast<std::size_t>(rank), b = static_cast<std::size_t>(other);
    return slots_on(rank) == slots_on(other) && speed[a] == speed[b] && node[a] == node[b];
  }
};

}  // namespace waybill
