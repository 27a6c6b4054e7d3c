// Drawn routing problems, for properties.
#pragma once

#include <fmt/format.h>

#include "plan/routing_case.h"
#include "property/property.h"

namespace waybill::testing {

inline Shape draw_shape() {
  using property::draw;
  const Shape s{
      .tokens = draw(0, 40),
      .topk = draw(1, 9),
      .experts = draw(1, 20),
      .ranks = draw(1, 9),
      .extra_slots = draw(0, 20),
      .drop_percent = property::draw_one_of({0, 0, 10, 50, 100}),
      .one_expert = property::draw_one_of({false, false, false, true}),
      .rule = property::draw_one_of(
          {SelectionRule::cyclic, SelectionRule::quota, SelectionRule::hashed}),
      .seed = static_cast<std::uint32_t>(property::draw_bits()),
  };
  property::note(
      fmt::format("T {}, k {}, E {}, P {}, extra slots {}, drops {} %{}, rule {}, seed {}",
                  s.tokens, s.topk, s.experts, s.ranks, s.extra_slots, s.drop_percent,
                  s.one_expert ? ", one expert" : "", static_cast<int>(s.rule), s.seed));
  return s;
}

}  // namespace waybill::testing
