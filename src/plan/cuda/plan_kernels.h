// The device plan as kernels over raw columns. A route falls into a bin — its expert, or its send
// key under the hashed rule; two more bins count dropped routes and bad ids — and a counting sort
// over bins places it: a route's row is the first row of its key plus the number of earlier routes
// of that key. Counts are integers and every route's rank comes from its position, so the result is
// the same in every run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "waybill/selection.h"

namespace waybill::plan_device {

// Selection, placement and peer order in device memory.
struct Tables {
  const std::int32_t* columns;  // all of those below, one after another
  std::int32_t column_ints;     // a multiple of 4, at an address that is a multiple of 16
  std::int32_t experts, keys, peers, topk;
  SelectionRule rule;
  std::int32_t origin;                    // rank, for the hashed rule
  const std::int32_t* candidate_offsets;  // [E+1]
  const std::int32_t* candidate_key;      // [C] send key
  const std::int32_t* quota_end;      // [C] exclusive ends, counted from this rank's first route of
                                      //     the expert, never descending; null unless by quota
  const std::int32_t* first_turn;     // [E] candidate of the first route; null unless cyclic
  const std::int32_t* key_candidate;  // [Q] position in candidate_key, -1: no candidate
  const std::int32_t* key_expert;     // [Q]
  const std::int32_t* key_slot;       // [Q]
  const std::int32_t* peer_keys;      // [P+1] first key of each peer
};

// What a step reads.
struct Input {
  const std::int32_t* ids;  // [T*k]
  std::int32_t routes;      // T*k
  const std::int32_t*
      real_tokens;  // routes of tokens from *real_tokens on are dropped; may be null
};

// What a failed step says besides the bits of PlanStatus; bits come first.
struct Status {
  std::uint32_t bits;
  std::int32_t bad_routes;
  std::int32_t first_bad_route;
  std::int32_t first_bad_id;
  std::int32_t first_bad_gate;  // accepted route whose gate isn't finite, found by the combine
};
inline constexpr std::int32_t kNoBadGate = 0x7fffffff;

// The columns of PlanView, writable.
struct Output {
  std::int32_t *slot, *send_position, *send_order, *key_offsets, *send_offsets, *expert_counts;
  Status* status;
  unsigned long long* load;  // [E] accepted routes of every step so far
};

// Counts of each tile of routes, between the two kernels of a large plan.
struct Scratch {
  std::uint32_t* tile_counts;  // [tiles, stride/2] two 16-bit counts a word
  std::int32_t* tile_bad;      // [tiles] first bad route, INT32_MAX: none
};

// How a plan of a given size is cut.
struct Shape {
  std::int32_t stride;       // bins, rounded up to an even number
  std::int32_t warps;        // per block of the counting kernel
  std::int32_t items;        // its routes per thread: 1 or 4
  std::int32_t tiles;        // its blocks; 1: one kernel does everything
  std::size_t shared;        // its shared memory per block, in bytes
  std::size_t place_shared;  // of the placing kernel, if there are two
  std::int32_t staged;       // ints of shared memory to which whoever places copies the tables;
                             // 0: it reads them where they are
};

// False when the bins don't fit into a block's shared memory.
bool choose_shape(const Tables& tables, std::int32_t routes, std::size_t shared_limit,
                  Shape& shape);
// Upper bound of the tiles of any plan of up to `routes` routes.
std::int32_t max_tiles(const Tables& tables, std::int32_t routes, std::size_t shared_limit);

// Lets the kernels use up to `shared_limit` bytes per block on the current device. True when they
// can be chained there (base/cuda/chained_kernel.cuh).
bool prepare(std::size_t shared_limit);
// One or two kernels on `stream`. Each lets the next one begin behind its own wait.
void launch(const Tables& tables, const Input& input, const Output& output, const Scratch& scratch,
            const Shape& shape, std::int32_t multiprocessors, bool chained, cudaStream_t stream);

}  // namespace waybill::plan_device
