// Where rows lie in a buffer that an exchange fills or empties: rows of other ranks in peer order,
// then this rank's own, which never travel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "waybill/ids.h"

namespace waybill {

class WireOrder {
 public:
  WireOrder() = default;
  // `offsets` [P+1]: first row of each peer in peer order.
  WireOrder(std::span<const std::int32_t> offsets, PeerSlot self)
      : first_local_(offsets[self.index()]),
        end_local_(offsets[self.index() + 1]),
        remote_(offsets.back() - local()) {}

  std::int32_t local() const { return end_local_ - first_local_; }
  std::int32_t remote() const { return remote_; }
  std::int32_t rows() const { return remote_ + local(); }
  bool is_local(std::int32_t row) const { return row >= first_local_ && row < end_local_; }
  // Position of a local row among the local rows.
  std::size_t local_index(std::int32_t row) const {
    return static_cast<std::size_t>(row - first_local_);
  }
  // Position of the row that is `row` in peer order.
  std::int32_t operator()(std::int32_t row) const {
    if (row < first_local_) return row;
    return row < end_local_ ? remote_ + (row - first_local_) : row - local();
  }

 private:
  std::int32_t first_local_ = 0, end_local_ = 0, remote_ = 0;
};

// Byte offsets [P+1] of an exchange of those rows: the segment to this rank itself is empty.
inline void remote_byte_offsets(std::span<const std::int32_t> offsets, PeerSlot self,
                                std::size_t row_bytes, std::vector<std::int64_t>& bytes) {
  bytes.assign(1, 0);
  for (std::size_t p = 0; p + 1 < offsets.size(); ++p) {
    const std::int64_t rows = p == self.index() ? 0 : offsets[p + 1] - offsets[p];
    bytes.push_back(bytes.back() + rows * static_cast<std::int64_t>(row_bytes));
  }
}

}  // namespace waybill
