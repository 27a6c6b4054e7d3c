// What a rank can give away in one exchange: one slot or two.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "placement/balance/assignment.h"

namespace waybill {

struct Pick {
  double load;                 // of the copies in its slots
  std::int32_t first, second;  // slots; second is -1 for a single one
};

// Every pick of `size` (1 or 2) slots of each rank by rising load, made again when the rank
// changes.
class Picks {
 public:
  Picks(const Assignment& assignment, std::int32_t size);
  std::span<const Pick> of(std::int32_t rank);

 private:
  void make(std::int32_t rank, std::vector<Pick>& picks) const;

  const Assignment& now_;
  std::int32_t size_;
  std::vector<std::vector<Pick>> picks_;  // by rank
  std::vector<std::uint32_t> edition_;    // of the rank when its picks were made
};

}  // namespace waybill
