#include <algorithm>
#include <climits>
#include <utility>

#include "base/cuda/call.h"
#include "base/cuda/chained_kernel.cuh"
#include "plan/cuda/plan_kernels.h"
#include "plan/cuda/slot_choice_device.cuh"
#include "waybill/plan.h"

namespace waybill::plan_device {
namespace {

constexpr int kWarp = 32;
constexpr int kMaxWarps = 32;
constexpr int kFewTiles = 64;  // more cost the placing kernel more than larger tiles cost counting
constexpr int kStagedInts = 4096;  // tables up to this size are read from shared memory
constexpr unsigned kAllLanes = 0xffffffffU;

__device__ int bin_count(const Tables& t) {
  return (t.rule == SelectionRule::hashed ? t.keys : t.experts) + 2;
}
__device__ int dropped_bin(const Tables& t) { return bin_count(t) - 2; }
__device__ int bad_bin(const Tables& t) { return bin_count(t) - 1; }

__device__ int bin_of(const Tables& t, const Input& in, int real_routes, int route, int id) {
  if (id == dropped_route || route >= real_routes) return dropped_bin(t);
  if (static_cast<unsigned>(id) >= static_cast<unsigned>(t.experts)) return bad_bin(t);
  return t.rule == SelectionRule::hashed ? hashed_key(t, id, route) : id;
}

__device__ int real_route_count(const Tables& t, const Input& in) {
  if (in.real_tokens == nullptr) return in.routes;
  return min(max(*in.real_tokens, 0), in.routes / t.topk) * t.topk;
}

// The lanes whose low bits equal this lane's. One ballot a bit: __match_any_sync takes several
// times as long when lanes differ.
__device__ unsigned lanes_with_same(int value, int bits) {
  unsigned same = kAllLanes;
  for (int bit = 0; bit < bits; ++bit) {
    const bool set = ((value >> bit) & 1) != 0;
    const unsigned lanes = __ballot_sync(kAllLanes, set);
    same &= set ? lanes : ~lanes;
  }
  return same;
}

// Exclusive prefix sum over the block of one value a thread; `sum` is the total. All threads call.
__device__ int exclusive_scan(int value, int* warp_sums, int& sum) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  int inclusive = value;
  for (int step = 1; step < kWarp; step *= 2) {
    const int below = __shfl_up_sync(kAllLanes, inclusive, step);
    if (lane >= step) inclusive += below;
  }
  __syncthreads();  // the sums of an earlier scan have been read
  if (lane == kWarp - 1) warp_sums[warp] = inclusive;
  __syncthreads();
  const int warps = blockDim.x / kWarp;
  int sums = lane < warps ? warp_sums[lane] : 0;
  for (int step = 1; step < kWarp; step *= 2) {
    const int below = __shfl_up_sync(kAllLanes, sums, step);
    if (lane >= step) sums += below;
  }
  sum = __shfl_sync(kAllLanes, sums, kWarp - 1);
  const int before = __shfl_sync(kAllLanes, sums, max(warp - 1, 0));
  return inclusive - value + (warp > 0 ? before : 0);
}

__device__ unsigned* tile_words(const Scratch& scratch, int tile, int stride) {
  return scratch.tile_counts + static_cast<std::size_t>(tile) * (stride / 2);
}

// Starts copying the tables, `ints` of them, to shared memory and returns them as they stand there:
// placing a route looks up one table through another, and each look-up in L2 would wait.
// await_tables() and a barrier come before the first read. With 0 `ints` they stay where they are.
__device__ Tables stage_tables(const Tables& t, int* to, int ints) {
  if (ints == 0) return t;
  constexpr int step = 4;  // ints of one copy
  for (int at = static_cast<int>(threadIdx.x) * step; at < ints; at += blockDim.x * step) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to + at))),
                 "l"(t.columns + at)
                 : "memory");
  }
  const auto staged = [&](const std::int32_t* column) { return to + (column - t.columns); };
  Tables there = t;
  there.candidate_offsets = staged(t.candidate_offsets);
  there.candidate_key = staged(t.candidate_key);
  there.quota_end = staged(t.quota_end);
  there.first_turn = staged(t.first_turn);
  there.key_candidate = staged(t.key_candidate);
  there.key_expert = staged(t.key_expert);
  there.key_slot = staged(t.key_slot);
  there.peer_keys = staged(t.peer_keys);
  return there;
}
__device__ void await_tables() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Turns the counts [rows, columns] of warps into the counts of earlier warps; `totals` [columns]
// are those of all. Neighbouring lanes share a column, each takes a run of rows.
__device__ void scan_columns(unsigned* counts, int rows, int columns, unsigned* totals) {
  constexpr int kRuns = 4, kLongestRun = kMaxWarps / kRuns;
  const int lane = threadIdx.x % kWarp;
  const int run = lane % kRuns;
  const int length = (rows + kRuns - 1) / kRuns;
  const int columns_at_once = static_cast<int>(blockDim.x) / kRuns;
  for (int first = (static_cast<int>(threadIdx.x) - lane) / kRuns; first < columns;
       first += columns_at_once) {
    const int column = first + lane / kRuns;
    const auto inside = [&](int i) {
      return i < length && run * length + i < rows && column < columns;
    };
    unsigned* const here = counts + run * length * columns + column;
    unsigned count[kLongestRun];
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < kLongestRun; ++i) {
      count[i] = inside(i) ? here[i * columns] : 0;
      sum += count[i];
    }
    unsigned through = sum;
#pragma unroll
    for (int step = 1; step < kRuns; step *= 2) {
      const unsigned below = __shfl_up_sync(kAllLanes, through, step, kRuns);
      if (run >= step) through += below;
    }
    unsigned before = through - sum;
#pragma unroll
    for (int i = 0; i < kLongestRun; ++i) {
      if (inside(i)) here[i * columns] = before;
      before += count[i];
    }
    if (run == kRuns - 1 && column < columns) totals[column] = through;
  }
}

// A tile is the routes of one block, kItems * 32 consecutive ones a warp. The routes of item i of a
// warp come before those of item i+1.
template <int kItems>
struct Tile {
  int bin[kItems];   // -1: past the end
  int rank[kItems];  // earlier routes of the tile in the same bin

  __device__ static int first_route(int tile) {
    return tile * kItems * static_cast<int>(blockDim.x);
  }
  __device__ static int route(int first, int item) {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    return first + (warp * kItems + item) * kWarp + lane;
  }

  // Ranks the tile's routes, once the kernels before have ended. `counts` [warps, stride] holds
  // each warp's 16-bit counts; afterwards `totals` [stride/2] holds the tile's, two a word.
  __device__ void count(const Tables& t, const Input& in, int first, unsigned short* counts,
                        int stride, unsigned* totals, int* first_bad) {
    const int lane = threadIdx.x % kWarp;
    const int warps = blockDim.x / kWarp;
    auto* words = reinterpret_cast<unsigned*>(counts);
    for (int w = threadIdx.x; w < warps * stride / 2; w += blockDim.x) words[w] = 0;
    if (threadIdx.x == 0) *first_bad = INT_MAX;
    device::wait_for_earlier_kernels();
    device::let_next_kernel_begin();
    const int real_routes = real_route_count(t, in);
    const int bin_bits = 32 - __clz(bin_count(t));  // bins and -1 differ in these
    int id[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int r = route(first, i);
      id[i] = r < in.routes ? in.ids[r] : 0;
    }
    __syncthreads();

    unsigned short* mine = counts + threadIdx.x / kWarp * stride;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int r = route(first, i);
      bin[i] = r < in.routes ? bin_of(t, in, real_routes, r, id[i]) : -1;
      if (bin[i] == bad_bin(t)) atomicMin(first_bad, r);
      const unsigned same = lanes_with_same(bin[i], bin_bits);
      const int before = bin[i] >= 0 ? mine[bin[i]] : 0;
      __syncwarp();
      rank[i] = before + __popc(same & ((1U << lane) - 1));
      if (bin[i] >= 0 && (same >> lane) == 1U) {  // the last lane of its bin
        mine[bin[i]] = static_cast<unsigned short>(rank[i] + 1);
      }
      __syncwarp();
    }
    __syncthreads();

    scan_columns(words, warps, stride / 2, totals);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (bin[i] >= 0) rank[i] += mine[bin[i]];
    }
  }
};

// Sums over all routes, in shared memory of every block that places.
struct Totals {
  int* before;       // [stride] routes of each bin in earlier tiles
  int* all;          // [stride] routes of each bin
  int* key_offsets;  // [Q+1]
  int* warp_sums;    // [32]
};

__device__ void scan_keys(const Tables& t, const Totals& totals) {
  int row = 0;
  for (int first = 0; first < t.keys; first += blockDim.x) {
    const int key = first + static_cast<int>(threadIdx.x);
    const int rows = key < t.keys ? key_rows(t, key, totals.all) : 0;
    int sum = 0;
    const int before = exclusive_scan(rows, totals.warp_sums, sum);
    if (key < t.keys) totals.key_offsets[key] = row + before;
    row += sum;
  }
  if (threadIdx.x == 0) totals.key_offsets[t.keys] = row;
  __syncthreads();
}

__device__ void place_route(const Tables& t, const Output& out, const Totals& totals, int route,
                            int bin, int rank) {
  Destination to{-1, 0};
  if (bin < dropped_bin(t)) {
    const int ordinal = totals.before[bin] + rank;
    to = t.rule == SelectionRule::hashed ? Destination{bin, ordinal}
                                         : choose_by_ordinal(t, bin, ordinal);
  }
  const bool placed = to.key >= 0;
  const int row = placed ? totals.key_offsets[to.key] + to.row : dropped_route;
  out.slot[route] = placed ? t.key_slot[to.key] : dropped_route;
  out.send_position[route] = row;
  if (placed) out.send_order[row] = route;
}

// The columns that aren't per route. One block.
__device__ void write_summary(const Tables& t, const Input& in, const Output& out,
                              const Totals& totals, int first_bad) {
  for (int q = threadIdx.x; q <= t.keys; q += blockDim.x) {
    out.key_offsets[q] = totals.key_offsets[q];
  }
  for (int p = threadIdx.x; p <= t.peers; p += blockDim.x) {
    out.send_offsets[p] = totals.key_offsets[t.peer_keys[p]];
  }
  bool unplaced = false;
  for (int e = threadIdx.x; e < t.experts; e += blockDim.x) {
    const int routes = expert_routes(t, e, totals.all);
    out.expert_counts[e] = routes;
    // Nobody else adds to it; an atomic one doesn't wait for the old value.
    atomicAdd(out.load + e, static_cast<unsigned long long>(routes));
    unplaced |= routes > expert_capacity(t, e);
  }
  const bool any_unplaced = __syncthreads_or(unplaced);
  if (threadIdx.x == 0) {
    const int bad = totals.all[bad_bin(t)];
    std::uint32_t bits = 0;
    if (bad > 0) bits |= static_cast<std::uint32_t>(PlanStatus::expert_id_out_of_range);
    if (any_unplaced) bits |= static_cast<std::uint32_t>(PlanStatus::no_replica);
    *out.status = {bits, bad, bad > 0 ? first_bad : -1, bad > 0 ? in.ids[first_bad] : 0,
                   kNoBadGate};
  }
}

extern __shared__ __align__(16) int shared[];

__device__ Totals carve_totals(int* memory, int stride, int keys) {
  return {memory, memory + stride, memory + 2 * stride, memory + 2 * stride + keys + 1};
}
std::size_t totals_ints(int stride, int keys) {
  return 2 * static_cast<std::size_t>(stride) + static_cast<std::size_t>(keys) + 1 + kMaxWarps;
}

template <int kItems>
__global__ void __launch_bounds__(kMaxWarps* kWarp)
    plan_one_tile(Tables t, Input in, Output out, int stride, int staged) {
  const Tables tables = stage_tables(t, shared, staged);
  auto* counts = reinterpret_cast<unsigned short*>(shared + staged);
  int* rest = shared + staged + blockDim.x / kWarp * stride / 2;
  auto* packed = reinterpret_cast<unsigned*>(rest);
  const Totals totals = carve_totals(rest + stride / 2, stride, t.keys);
  __shared__ int first_bad;

  Tile<kItems> tile;
  tile.count(t, in, 0, counts, stride, packed, &first_bad);
  for (int p = threadIdx.x; p < stride / 2; p += blockDim.x) {
    totals.all[2 * p] = static_cast<int>(packed[p] & 0xffffU);
    totals.all[2 * p + 1] = static_cast<int>(packed[p] >> 16);
    totals.before[2 * p] = totals.before[2 * p + 1] = 0;
  }
  await_tables();
  __syncthreads();
  scan_keys(tables, totals);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (tile.bin[i] < 0) continue;
    place_route(tables, out, totals, tile.route(0, i), tile.bin[i], tile.rank[i]);
  }
  write_summary(tables, in, out, totals, first_bad);
}

// Leaves each route's rank inside its tile in send_position.
template <int kItems>
__global__ void __launch_bounds__(kMaxWarps* kWarp)
    count_tiles(Tables t, Input in, Output out, Scratch scratch, int stride) {
  auto* counts = reinterpret_cast<unsigned short*>(shared);
  __shared__ int first_bad;
  const int first = Tile<kItems>::first_route(blockIdx.x);
  Tile<kItems> tile;
  tile.count(t, in, first, counts, stride, tile_words(scratch, blockIdx.x, stride), &first_bad);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (tile.bin[i] >= 0) out.send_position[tile.route(first, i)] = tile.rank[i];
  }
  if (threadIdx.x == 0) scratch.tile_bad[blockIdx.x] = first_bad;
}

// Sums the tiles' counts, those before tile `first` apart. `partial` [2, groups, stride].
__device__ void sum_tiles(const Scratch& scratch, int tiles, int first, int stride, int* partial,
                          const Totals& totals) {
  const int words = stride / 2;
  const int width = min(static_cast<int>(blockDim.x), (words + kWarp - 1) / kWarp * kWarp);
  const int groups = blockDim.x / width;
  const int group = threadIdx.x / width;
  for (int p = threadIdx.x % width; group < groups && p < words; p += width) {
    int before[2] = {0, 0}, all[2] = {0, 0};
#pragma unroll 8
    for (int tile = group; tile < tiles; tile += groups) {
      const unsigned word = tile_words(scratch, tile, stride)[p];
      const int low = static_cast<int>(word & 0xffffU), high = static_cast<int>(word >> 16);
      all[0] += low;
      all[1] += high;
      before[0] += tile < first ? low : 0;
      before[1] += tile < first ? high : 0;
    }
    for (int half = 0; half < 2; ++half) {
      partial[group * stride + 2 * p + half] = before[half];
      partial[(groups + group) * stride + 2 * p + half] = all[half];
    }
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < stride; bin += blockDim.x) {
    int before = 0, all = 0;
    for (int g = 0; g < groups; ++g) {
      before += partial[g * stride + bin];
      all += partial[(groups + g) * stride + bin];
    }
    totals.before[bin] = before;
    totals.all[bin] = all;
  }
  __syncthreads();
}

__device__ int first_bad_of(const Scratch& scratch, int tiles) {
  __shared__ int first_bad;
  if (threadIdx.x == 0) first_bad = INT_MAX;
  __syncthreads();
  for (int tile = threadIdx.x; tile < tiles; tile += blockDim.x) {
    if (scratch.tile_bad[tile] != INT_MAX) atomicMin(&first_bad, scratch.tile_bad[tile]);
  }
  __syncthreads();
  return first_bad;
}

__global__ void __launch_bounds__(kMaxWarps* kWarp, 1)
    place_tiles(Tables t, Input in, Output out, Scratch scratch, int stride, int tiles,
                int tile_routes, int staged) {
  const Tables tables = stage_tables(t, shared, staged);
  const Totals totals = carve_totals(shared + staged, stride, t.keys);
  int* partial = totals.warp_sums + kMaxWarps;
  const int run = (tiles + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
  const int first = static_cast<int>(blockIdx.x) * run;
  const int end = min(first + run, tiles);
  device::wait_for_earlier_kernels();
  device::let_next_kernel_begin();
  sum_tiles(scratch, tiles, first, stride, partial, totals);
  await_tables();
  __syncthreads();
  scan_keys(tables, totals);
  const int real_routes = real_route_count(t, in);
  for (int tile = first; tile < end; ++tile) {
    const int end_route = min((tile + 1) * tile_routes, in.routes);
    for (int route = tile * tile_routes + static_cast<int>(threadIdx.x); route < end_route;
         route += blockDim.x) {
      const int bin = bin_of(tables, in, real_routes, route, in.ids[route]);
      place_route(tables, out, totals, route, bin, out.send_position[route]);
    }
    if (tile + 1 == end) break;
    __syncthreads();
    for (int p = threadIdx.x; p < stride / 2; p += blockDim.x) {
      const unsigned word = tile_words(scratch, tile, stride)[p];
      totals.before[2 * p] += static_cast<int>(word & 0xffffU);
      totals.before[2 * p + 1] += static_cast<int>(word >> 16);
    }
    __syncthreads();
  }
  if (blockIdx.x == 0) write_summary(tables, in, out, totals, first_bad_of(scratch, tiles));
}

std::int32_t stride_of(const Tables& tables) {
  const std::int32_t bins =
      (tables.rule == SelectionRule::hashed ? tables.keys : tables.experts) + 2;
  return (bins + 1) / 2 * 2;
}

std::size_t one_tile_ints(const Tables& tables, std::int32_t stride, std::int32_t warps) {
  const std::size_t words = static_cast<std::size_t>(stride) / 2;
  return (static_cast<std::size_t>(warps) + 1) * words + totals_ints(stride, tables.keys);
}

std::size_t place_ints(const Tables& tables, std::int32_t stride) {
  // Groups of sum_tiles() hold at most 2 * 1024 bins between them, or one group holds all.
  const std::size_t partial = 2 * static_cast<std::size_t>(std::max(stride, 2 * kMaxWarps * kWarp));
  return totals_ints(stride, tables.keys) + partial;
}

}  // namespace

bool choose_shape(const Tables& tables, std::int32_t routes, std::size_t shared_limit,
                  Shape& shape) {
  shape = {};
  shape.stride = stride_of(tables);
  shape.place_shared = place_ints(tables, shape.stride) * sizeof(int);
  if (shape.place_shared > shared_limit) return false;
  // Measured on an H200 (docs/decisions/0003): one block up to 1024 routes, as narrow as they
  // allow; then the smallest tiles that are no more than kFewTiles.
  const bool one = routes <= kMaxWarps * kWarp;
  constexpr std::pair<int, int> sizes[] = {{8, 1}, {16, 1}, {32, 1}, {16, 4}, {32, 4}};
  for (const auto& [warps, items] : sizes) {
    shape.warps = warps;
    shape.items = items;
    if (routes <= warps * items * kWarp * (one ? 1 : kFewTiles)) break;
  }
  const auto bytes = [&] { return one_tile_ints(tables, shape.stride, shape.warps) * sizeof(int); };
  while (shape.warps > 0 && bytes() > shared_limit) shape.warps /= 2;
  if (shape.warps == 0) return false;
  shape.shared = bytes();
  shape.tiles = std::max((routes - 1) / (shape.warps * kWarp * shape.items) + 1, 1);
  std::size_t& placing = shape.tiles == 1 ? shape.shared : shape.place_shared;
  const std::size_t staged = static_cast<std::size_t>(tables.column_ints) * sizeof(int);
  if (tables.column_ints <= kStagedInts && placing + staged <= shared_limit) {
    shape.staged = tables.column_ints;
    placing += staged;
  }
  return true;
}

std::int32_t max_tiles(const Tables& tables, std::int32_t routes, std::size_t shared_limit) {
  Shape shape;
  if (!choose_shape(tables, routes, shared_limit, shape)) return 0;
  // A smaller plan may have more, smaller tiles.
  constexpr std::int32_t most = kMaxWarps * kWarp * kFewTiles;
  return std::max(shape.tiles, std::min(routes, most) / (std::min(shape.warps, 8) * kWarp) + 1);
}

bool prepare(std::size_t shared_limit) {
  const auto bytes = static_cast<int>(shared_limit);
  const auto allow = [bytes](auto kernel) {
    WAYBILL_CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  };
  allow(plan_one_tile<1>);
  allow(plan_one_tile<4>);
  allow(count_tiles<1>);
  allow(count_tiles<4>);
  allow(place_tiles);
  return can_chain(place_tiles);
}

void launch(const Tables& tables, const Input& input, const Output& output, const Scratch& scratch,
            const Shape& shape, std::int32_t multiprocessors, bool chained, cudaStream_t stream) {
  const int threads = shape.warps * kWarp;
  if (shape.tiles == 1) {
    const auto kernel = shape.items == 1 ? plan_one_tile<1> : plan_one_tile<4>;
    launch_kernel(chained, kernel, 1, threads, shape.shared, stream, tables, input, output,
                  shape.stride, shape.staged);
    return;
  }
  const auto count = shape.items == 1 ? count_tiles<1> : count_tiles<4>;
  launch_kernel(chained, count, shape.tiles, threads, shape.shared, stream, tables, input, output,
                scratch, shape.stride);
  const int blocks = std::min(shape.tiles, multiprocessors);
  launch_kernel(chained, place_tiles, blocks, kMaxWarps * kWarp, shape.place_shared, stream, tables,
                input, output, scratch, shape.stride, shape.tiles, threads * shape.items,
                shape.staged);
}

}  // namespace waybill::plan_device
