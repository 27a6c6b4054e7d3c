// Which send key a route goes to, and which of the key's rows it is, in closed form from the
// route's ordinal among its expert's routes: the device's reading of SelectionTable.
#pragma once

#include <climits>

#include "plan/cuda/plan_kernels.h"

namespace waybill::plan_device {

struct Destination {
  int key;  // -1: no candidate takes the route
  int row;  // position among the key's rows
};

// Turns t in [0, end) that fall on candidate `which` of `candidates`.
__device__ inline int turns_on(int which, int end, int candidates) {
  return end > which ? (end - which - 1) / candidates + 1 : 0;
}

__device__ inline int hashed_key(const Tables& t, int expert, int route) {
  const int first = t.candidate_offsets[expert];
  const int candidates = t.candidate_offsets[expert + 1] - first;
  if (candidates == 1) return t.candidate_key[first];
  const std::uint64_t hash =
      route_hash(Rank{t.origin}, TokenRow{route / t.topk}, RouteSlot{route % t.topk});
  return t.candidate_key[first + static_cast<int>(hash % static_cast<unsigned>(candidates))];
}

__device__ inline Destination choose_by_ordinal(const Tables& t, int expert, int ordinal) {
  const int first = t.candidate_offsets[expert];
  const int candidates = t.candidate_offsets[expert + 1] - first;
  if (t.rule == SelectionRule::quota) {
    int start = 0;
    for (int i = 0; i < candidates; ++i) {
      const int end = t.quota_end[first + i];
      if (ordinal < end) return {t.candidate_key[first + i], ordinal - start};
      start = end;
    }
    return {-1, 0};
  }
  if (candidates == 0) return {-1, 0};
  if (candidates == 1) return {t.candidate_key[first], ordinal};
  const int turn = t.first_turn[expert] + ordinal;
  const int which = turn % candidates;
  const int skipped = which < t.first_turn[expert] ? 1 : 0;
  return {t.candidate_key[first + which], turn / candidates - skipped};
}

// Rows of a send key, from the routes of each bin.
__device__ inline int key_rows(const Tables& t, int key, const int* routes) {
  if (t.rule == SelectionRule::hashed) return routes[key];
  const int candidate = t.key_candidate[key];
  if (candidate < 0) return 0;
  const int expert = t.key_expert[key];
  const int first = t.candidate_offsets[expert];
  const int candidates = t.candidate_offsets[expert + 1] - first;
  const int n = routes[expert];
  if (t.rule == SelectionRule::quota) {
    const int start = candidate > first ? t.quota_end[candidate - 1] : 0;
    return min(n, t.quota_end[candidate]) - min(n, start);
  }
  if (candidates == 1) return n;
  const int turn = t.first_turn[expert], which = candidate - first;
  return turns_on(which, turn + n, candidates) - turns_on(which, turn, candidates);
}

// Routes of an expert, from the routes of each bin.
__device__ inline int expert_routes(const Tables& t, int expert, const int* routes) {
  if (t.rule != SelectionRule::hashed) return routes[expert];
  int sum = 0;
  for (int i = t.candidate_offsets[expert]; i < t.candidate_offsets[expert + 1]; ++i) {
    sum += routes[t.candidate_key[i]];
  }
  return sum;
}

// Routes of an expert that its candidates take together.
__device__ inline int expert_capacity(const Tables& t, int expert) {
  const int end = t.candidate_offsets[expert + 1];
  if (end == t.candidate_offsets[expert]) return 0;
  return t.rule == SelectionRule::quota ? t.quota_end[end - 1] : INT_MAX;
}

}  // namespace waybill::plan_device
