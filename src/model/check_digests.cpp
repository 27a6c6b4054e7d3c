#include <algorithm>
#include <string_view>

#include "waybill/block.h"
#include "waybill/error.h"
#include "waybill/expert.h"

namespace waybill {
namespace {

// Other text is a label that the weights can't answer for.
bool is_sha256(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  return text.size() == 64 && text.find_first_not_of(digits) == std::string_view::npos;
}

}  // namespace

void check_parameter_digests(const Checkpoint& checkpoint, LayerId layer,
                             const Placement& placement, Rank rank) {
  for (const SlotId id : placement.slots_on(rank)) {
    const Slot& slot = placement.slot(id);
    if (!is_sha256(slot.parameter_digest)) continue;
    const std::string found = parameter_digest(checkpoint.expert(layer, slot.expert));
    if (found == slot.parameter_digest) continue;
    throw Error(Code::ParameterDigestMismatch)
        .at("placement", placement.version())
        .at("layer", layer)
        .at("slot", slot.name)
        .at("expert", slot.expert)
        .expected(slot.parameter_digest)
        .found(found);
  }
}

}  // namespace waybill
