// What ranks can hold when the largest rank time is to stay within a bound.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "placement/balance/layer_problem.h"

namespace waybill {

// Ranks that stand for each other.
using RankKind = std::vector<std::int32_t>;
std::vector<RankKind> rank_kinds(const LayerProblem& problem);

// One copy of an expert that has `copies` of them: load / copies.
struct SharedCopy {
  std::int32_t expert, copies;
};

// A way to fill the slots of a rank of kind `kind`, experts ascending.
struct RankContent {
  std::int32_t kind;
  std::vector<SharedCopy> held;
};

// The most copies that an expert can have.
std::int32_t most_copies(const LayerProblem& problem);

// Every way to fill a rank that keeps its time within `ratio` and leaves the other ranks no more
// than theirs can take. Empty where there are more than `limit`.
std::optional<std::vector<RankContent>> rank_contents(const LayerProblem& problem,
                                                      const std::vector<RankKind>& kinds,
                                                      double ratio, std::size_t limit);

}  // namespace waybill
