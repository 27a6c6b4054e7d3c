#include "waybill/error.h"
#include "waybill/placement.h"

namespace waybill {

const Placement& Generation::layer(LayerId id) const {
  const auto found = layers.find(id);
  if (found == layers.end()) {
    throw Error(Code::InvalidValue)
        .at("placement", version)
        .at("layer", id)
        .expected("a MoE layer of the generation")
        .found("no placement");
  }
  return *found->second;
}

}  // namespace waybill
