// An expert, slot or rank number as the index of a table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace waybill {

inline std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace waybill
