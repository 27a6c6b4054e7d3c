// Which tile a block computes. The number of row tiles follows from offsets that only the device
// knows, so each warp finds its tile from them.
#pragma once

#include <cstdint>

namespace waybill::device {

struct TileAt {
  int slot;       // -1: no such tile
  int first_row;  // expert row
  int rows;       // of the tile
  int column;     // column tile
};

// Row tiles that share their columns' weights in cache: weights are read once per so many row
// tiles.
constexpr int kRowTilesTogether = 8;

// The tiles of one product, as a warp sees them. All lanes call and get the same answers.
class TileSchedule {
 public:
  // A slot has as few tiles of at most `tile_rows` rows as hold its rows, of equal height in units
  // of `unit` rows but for the last; a unit of `tile_rows` fills all but the last. `unit` divides
  // `tile_rows`.
  __device__ TileSchedule(const std::int32_t* offsets, int slots, int tile_rows, int unit,
                          int column_tiles)
      : offsets_(offsets), tile_rows_(tile_rows), unit_(unit), column_tiles_(column_tiles) {
    const int lane = threadIdx.x % 32;
    const int per_lane = (slots + 31) / 32;
    first_slot_ = min(lane * per_lane, slots);
    const int end_slot = min(first_slot_ + per_lane, slots);
    for (int slot = first_slot_; slot < end_slot; ++slot) {
      tiles_ += tiles_of(offsets[slot + 1] - offsets[slot]);
    }
    through_ = tiles_;
    for (int step = 1; step < 32; step *= 2) {
      const int below = __shfl_up_sync(kAllLanes, through_, step);
      if (lane >= step) through_ += below;
    }
    row_tiles_ = __shfl_sync(kAllLanes, through_, 31);
  }

  // Tile `id` of the grid, columns of kRowTilesTogether row tiles at a time; past the last, slot
  // is -1.
  __device__ TileAt find(int id) const {
    const int together = kRowTilesTogether * column_tiles_;
    const int first = id / together * kRowTilesTogether;
    if (first >= row_tiles_) return {-1, 0, 0, 0};
    const int width = min(kRowTilesTogether, row_tiles_ - first);
    const int within = id % together;
    if (within >= width * column_tiles_) return {-1, 0, 0, 0};
    const int row_tile = first + within % width;

    const int lane = threadIdx.x % 32;
    const int owner = __ffs(static_cast<int>(__ballot_sync(kAllLanes, through_ > row_tile))) - 1;
    int slot = -1, row = 0, rows = 0;
    if (lane == owner) {
      int left = row_tile - (through_ - tiles_), here = 0;
      for (slot = first_slot_;; ++slot) {
        row = offsets_[slot];
        rows = offsets_[slot + 1] - row;
        here = tiles_of(rows);
        if (left < here) break;
        left -= here;
      }
      const int height = ((rows + here - 1) / here + unit_ - 1) / unit_ * unit_;
      row += left * height;
      rows = min(rows - left * height, height);
    }
    return {__shfl_sync(kAllLanes, slot, owner), __shfl_sync(kAllLanes, row, owner),
            __shfl_sync(kAllLanes, rows, owner), within / width};
  }

 private:
  static constexpr unsigned kAllLanes = 0xffffffffU;

  __device__ int tiles_of(int rows) const { return (rows + tile_rows_ - 1) / tile_rows_; }

  const std::int32_t* offsets_;
  int tile_rows_, unit_, column_tiles_;
  int first_slot_ = 0;  // of this lane's slots
  int tiles_ = 0;       // row tiles of this lane's slots
  int through_ = 0;     // and of all slots before them
  int row_tiles_ = 0;
};

}  // namespace waybill::device
