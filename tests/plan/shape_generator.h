// RapidCheck generators of routing problems.
#pragma once

#include <rapidcheck/gtest.h>

#include <ostream>

#include "plan/routing_case.h"

namespace waybill::testing {

inline std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << "T " << s.tokens << ", k " << s.topk << ", E " << s.experts << ", P " << s.ranks
             << ", extra slots " << s.extra_slots << ", drops " << s.drop_percent << " %"
             << (s.one_expert ? ", one expert" : "") << ", rule " << static_cast<int>(s.rule)
             << ", seed " << s.seed;
}

}  // namespace waybill::testing

namespace rc {

template <>
struct Arbitrary<waybill::testing::Shape> {
  static Gen<waybill::testing::Shape> arbitrary() {
    using waybill::SelectionRule;
    using waybill::testing::Shape;
    return gen::build<Shape>(
        gen::set(&Shape::tokens, gen::inRange(0, 40)), gen::set(&Shape::topk, gen::inRange(1, 9)),
        gen::set(&Shape::experts, gen::inRange(1, 20)), gen::set(&Shape::ranks, gen::inRange(1, 9)),
        gen::set(&Shape::extra_slots, gen::inRange(0, 20)),
        gen::set(&Shape::drop_percent, gen::element(0, 0, 10, 50, 100)),
        gen::set(&Shape::one_expert, gen::element(false, false, false, true)),
        gen::set(&Shape::rule,
                 gen::element(SelectionRule::cyclic, SelectionRule::quota, SelectionRule::hashed)),
        gen::set(&Shape::seed, gen::arbitrary<std::uint32_t>()));
  }
};

}  // namespace rc
