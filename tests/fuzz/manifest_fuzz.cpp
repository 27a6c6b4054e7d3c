// A placement manifest: one that is accepted reads back as the same text after it was written.
#include <array>

#include "fuzz/target.h"
#include "waybill/placement.h"

namespace waybill::fuzz {

void read(std::string_view bytes) {
  constexpr std::array layers{LayerId{1}, LayerId{3}};
  const auto parse = [&](std::string_view text) {
    return parse_placement_manifest(text, "m.json", 4, 2, layers);
  };
  const std::string written = placement_manifest(parse(bytes));
  require(placement_manifest(parse(written)) == written);
}

}  // namespace waybill::fuzz
