#include "placement/slot_names.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace waybill {

void name_unnamed(std::vector<Slot>& slots) {
  std::unordered_map<ExpertId, std::int32_t> copies;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = slots[i];
    const std::int32_t ordinal = copies[slot.expert]++;
    if (slot.name.empty()) slot.name = fmt::format("q{}", i);
    if (slot.replica.empty()) slot.replica = fmt::format("e{}-r{}", slot.expert.value, ordinal);
  }
}

}  // namespace waybill
