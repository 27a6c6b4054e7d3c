#include "conformance/split_vectors.h"

namespace waybill::conformance {
namespace {

void expect_same_axes(Report& report, const Value& stated, const Json& derived) {
  if (!stated.json().is_array() || !derived.is_array()) return;
  const auto axes = stated.elements();
  report.expect_that(axes.size() == derived.size(), Code::GroupShapeMismatch, stated,
                     derived.size());
  for (std::size_t i = 0; i < std::min(axes.size(), derived.size()); ++i) {
    expect_same_axes(report, axes[i], derived[i]);
  }
}

}  // namespace

void expect_splits(Report& report, const Value& object, std::string_view key, const Json& derived,
                   std::initializer_list<Code> codes) {
  if (const auto stated = object.find(key)) expect_same_axes(report, *stated, derived);
  report.expect(object, key, derived, codes);
}

}  // namespace waybill::conformance
