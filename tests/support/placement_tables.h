// Placement tables that tests write and read.
#pragma once

#include "waybill/placement_file.h"

namespace waybill::testing {

// Four experts in two MoE layers between dense ones, over two ranks of three slots.
inline PlacementTable two_layers() {
  PlacementTable table;
  table.experts = 4;
  table.layers = {LayerId(1), LayerId(3)};
  table.dense_layers = {LayerId(0), LayerId(2)};
  table.slots = {{{0, 1, 2}, {3, 0, 1}}, {{3, 2, 1}, {0, 3, 2}}};
  return table;
}

}  // namespace waybill::testing
