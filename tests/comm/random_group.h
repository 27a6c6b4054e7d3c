// Process groups for property tests.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "waybill/topology.h"

namespace waybill::test {

// All ranks 0 … ranks-1 in a random peer order.
inline ProcessGroup random_group(std::int32_t ranks) {
  std::vector<Rank> order;
  for (std::int32_t rank = 0; rank < ranks; ++rank) order.emplace_back(rank);
  for (std::int32_t i = ranks; i-- > 1;) {
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(*rc::gen::inRange(0, i + 1))]);
  }
  return ProcessGroup(ProcessGroupId("group"), GroupEpoch{1}, std::move(order));
}

}  // namespace waybill::test
