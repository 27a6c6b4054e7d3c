// The rules that every plan keeps, checked directly on its lists.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "waybill/balance.h"

namespace waybill::testing {

inline std::vector<std::int32_t> copies(const SlotLists& lists, std::int32_t experts) {
  std::vector<std::int32_t> count(static_cast<std::size_t>(experts), 0);
  for (const auto& list : lists) {
    for (std::int32_t e : list) ++count[static_cast<std::size_t>(e)];
  }
  return count;
}

// What is wrong with the lists; empty when each rank fills its slots with different experts and
// every expert has a copy.
inline std::string broken_rule(const SlotLists& lists, const Cluster& cluster,
                               std::int32_t experts) {
  if (lists.size() != cluster.slots.size()) return "number of ranks";
  for (std::size_t r = 0; r < lists.size(); ++r) {
    const std::string on = " on rank " + std::to_string(r);
    if (lists[r].size() != static_cast<std::size_t>(cluster.slots[r])) return "slot count" + on;
    if (std::set(lists[r].begin(), lists[r].end()).size() != lists[r].size()) {
      return "two copies" + on;
    }
  }
  const auto count = copies(lists, experts);
  for (std::size_t e = 0; e < count.size(); ++e) {
    if (count[e] == 0) return "no copy of expert " + std::to_string(e);
  }
  return "";
}

// Whether some node holds a copy of each of `size` experts from `first` on.
inline bool has_home(const SlotLists& lists, const Topology& topology, std::int32_t first,
                     std::int32_t size) {
  for (std::int32_t node = 0; node < topology.nodes(); ++node) {
    std::set<std::int32_t> here;
    for (std::size_t r = 0; r < lists.size(); ++r) {
      if (topology.node_of(Rank(static_cast<std::int32_t>(r))) != NodeId(node)) continue;
      for (std::int32_t e : lists[r]) {
        if (e >= first && e < first + size) here.insert(e);
      }
    }
    if (here.size() == static_cast<std::size_t>(size)) return true;
  }
  return false;
}

}  // namespace waybill::testing
