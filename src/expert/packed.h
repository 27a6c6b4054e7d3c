// What an owning ExpertBundle holds.
#pragma once

#include "expert/panel.h"
#include "waybill/tensor.h"

namespace waybill {

struct ExpertBundle::Packed {
  Workspace memory;     // all of the below, 256-byte aligned
  std::byte* gate_up;   // [panels][d][32] in the execution dtype
  std::byte* down;      // [panels][ff][32]
  float* gate_up_bias;  // [panels][32], or null when the expert has no biases
  float* down_bias;

  const std::byte* panels(Projection projection) const {
    return projection == Projection::gate_up ? gate_up : down;
  }
  const float* bias(Projection projection) const {
    return projection == Projection::gate_up ? gate_up_bias : down_bias;
  }
};

}  // namespace waybill
