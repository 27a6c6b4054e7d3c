// Which experts a token keeps, by their selection scores.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "waybill/router.h"

namespace waybill {

// Chooses per token; keeps its scratch memory between tokens.
class TopExperts {
 public:
  explicit TopExperts(const RouterSpec& spec) : spec_(spec) {}

  // `scores`: [E]; fills `chosen`, [k]: descending score, ties to the lower id, NaN after all
  // numbers. With groups, only experts of the kept groups are considered.
  void choose(std::span<const float> scores, std::span<std::int32_t> chosen);

 private:
  void keep_groups(std::span<const float> scores);

  RouterSpec spec_;
  std::vector<std::uint64_t> keys_;
  std::vector<float> group_scores_;
  std::vector<std::int32_t> kept_;
};

}  // namespace waybill
