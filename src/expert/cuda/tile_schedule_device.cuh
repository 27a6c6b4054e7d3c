// Which tile a block computes. The number of row tiles follows from offsets that only the device
// knows, so each warp finds its tile from them.
#pragma once

#include <cstdint>

namespace waybill::device {

struct TileAt {
  int slot;       // -1: no such tile
  int first_row;  // expert row
  int rows;       // of the slot from first_row on
  int column;     // column tile
};

// Row tiles that share their columns' weights in cache: weights are read once per so many row
// tiles.
constexpr int kRowTilesTogether = 8;

// Tile `id` of the grid, columns of kRowTilesTogether row tiles at a time. All lanes call and get
// the same answer.
__device__ inline TileAt find_tile(const std::int32_t* offsets, int slots, int tile_rows,
                                   int column_tiles, int id) {
  constexpr unsigned all_lanes = 0xffffffffU;
  const int lane = threadIdx.x % 32;
  const int per_lane = (slots + 31) / 32;
  const int first_slot = min(lane * per_lane, slots), end_slot = min(first_slot + per_lane, slots);
  int tiles = 0;
  for (int slot = first_slot; slot < end_slot; ++slot) {
    tiles += (offsets[slot + 1] - offsets[slot] + tile_rows - 1) / tile_rows;
  }
  int through = tiles;
  for (int step = 1; step < 32; step *= 2) {
    const int below = __shfl_up_sync(all_lanes, through, step);
    if (lane >= step) through += below;
  }
  const int row_tiles = __shfl_sync(all_lanes, through, 31);

  const int together = kRowTilesTogether * column_tiles;
  const int first = id / together * kRowTilesTogether;
  if (first >= row_tiles) return {-1, 0, 0, 0};
  const int width = min(kRowTilesTogether, row_tiles - first);
  const int within = id % together;
  if (within >= width * column_tiles) return {-1, 0, 0, 0};
  const int row_tile = first + within % width;

  const int owner = __ffs(static_cast<int>(__ballot_sync(all_lanes, through > row_tile))) - 1;
  int slot = -1, row = 0, rows = 0;
  if (lane == owner) {
    int left = row_tile - (through - tiles);
    for (slot = first_slot;; ++slot) {
      row = offsets[slot];
      rows = offsets[slot + 1] - row;
      const int here = (rows + tile_rows - 1) / tile_rows;
      if (left < here) break;
      left -= here;
    }
    row += left * tile_rows;
    rows -= left * tile_rows;
  }
  return {__shfl_sync(all_lanes, slot, owner), __shfl_sync(all_lanes, row, owner),
          __shfl_sync(all_lanes, rows, owner), within / width};
}

}  // namespace waybill::device
