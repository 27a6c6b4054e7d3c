// The public expert-parallel load balancer (github.com/deepseek-ai/EPLB, commit d52c72d5), bit for
// bit: binary32 arithmetic, first maximum, first lightest pack, and the order that its sort leaves
// equal loads in. Source: reference text 0x08C-0x08E.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace waybill {

// The four integers of a request; slot s lives on GPU s / (replicas / gpus).
struct EplbShape {
  std::int32_t replicas = 0;  // slots, R
  std::int32_t groups = 1;    // contiguous blocks of experts, G
  std::int32_t nodes = 1;     // N
  std::int32_t gpus = 1;      // P

  // Groups stay inside nodes when they divide over them; otherwise groups and nodes are ignored.
  bool hierarchical() const { return groups % nodes == 0; }
};

struct EplbPlan {
  std::int32_t layers = 0, experts = 0, replicas = 0;
  std::int32_t max_copies = 0;        // X: most copies of any expert in any layer
  std::vector<std::int32_t> phy2log;  // [L, R] expert of each slot
  std::vector<std::int32_t> phyrank;  // [L, R] which copy of its expert a slot is
  std::vector<std::int32_t> log2phy;  // [L, E, X] slots by copy, -1 past logcnt
  std::vector<std::int32_t> logcnt;   // [L, E] copies
  std::vector<std::string> warnings;  // what the solver passes over in silence
};

// Throws DivisibilityMismatch or ReplicaCardinalityZero for a shape that the solver refuses, with
// the values and the nearest valid setting; InvalidValue for a count below 1.
void check_eplb_shape(std::int32_t experts, const EplbShape& shape);

// `weight` [L, E]: loads, already rounded to binary32 as the solver rounds them. InvalidValue, with
// layer and expert, for a load that is negative or not finite. Deterministic on any machine.
EplbPlan eplb(std::span<const float> weight, std::int32_t layers, std::int32_t experts,
              const EplbShape& shape);

}  // namespace waybill
