// Random legal placements and peer orders for property tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "waybill/placement.h"
#include "waybill/topology.h"

namespace waybill::testing {

// Every expert at least once, up to E further replicas, no two copies on one rank where it can be
// avoided, any slot count per rank but 0 (needs E >= P).
inline Placement random_placement(std::int32_t experts, std::int32_t ranks, std::mt19937_64& rng,
                                  const std::string& version = "placement-random") {
  const auto pick = [&](std::int32_t n) {
    return std::uniform_int_distribution<std::int32_t>(0, n - 1)(rng);
  };
  std::vector<std::int32_t> order(static_cast<std::size_t>(experts));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, rng);
  std::vector<std::vector<std::int32_t>> lists(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto rank = i < lists.size() ? i : static_cast<std::size_t>(pick(ranks));
    lists[rank].push_back(order[i]);
  }
  for (std::int32_t spare = pick(experts + 1); spare > 0; --spare) {
    const std::int32_t expert = pick(experts);
    auto& list = lists[static_cast<std::size_t>(pick(ranks))];
    if (std::ranges::find(list, expert) == list.end()) list.push_back(expert);
  }
  for (auto& list : lists) std::ranges::shuffle(list, rng);
  return Placement::from_lists(PlacementVersion{version}, experts, lists);
}

inline ProcessGroup random_group(std::int32_t ranks, std::mt19937_64& rng) {
  std::vector<Rank> order;
  for (std::int32_t r = 0; r < ranks; ++r) order.emplace_back(r);
  std::ranges::shuffle(order, rng);
  return {ProcessGroupId{"ep-group-0"}, GroupEpoch{0}, order};
}

// One placement for every layer.
inline Generation generation_of(Placement placement, std::span<const LayerId> layers,
                                std::uint64_t number = 1) {
  Generation generation;
  generation.version = placement.version();
  generation.number = number;
  generation.checkpoint = CheckpointVersion{"checkpoint-0"};
  generation.group = ProcessGroupId{"ep-group-0"};
  const auto shared = std::make_shared<const Placement>(std::move(placement));
  for (LayerId layer : layers) generation.layers[layer] = shared;
  return generation;
}

}  // namespace waybill::testing
