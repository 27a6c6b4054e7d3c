#include "conformance/row_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace waybill::conformance {
namespace {

bool agrees(const Json& stated, double hundredths, double unit) {
  if (!stated.is_number()) return false;
  const double derived = hundredths / unit, found = stated.get<double>();
  constexpr double exact_in_fp32 = 1 << 24;
  if (std::abs(hundredths) <= exact_in_fp32 && hundredths == std::round(hundredths)) {
    return found == derived;
  }
  return std::abs(found - derived) <= 1e-6 * std::abs(derived);
}

Problem one_token_a_route(const Problem& problem) {
  Problem split = problem;
  split.topk = 1;
  const auto width = static_cast<std::ptrdiff_t>(problem.width);
  for (Origin& origin : split.origins) {
    std::vector<float> hidden;
    for (std::int32_t token = 0; token < origin.tokens; ++token) {
      const auto row = origin.hidden.begin() + token * width;
      for (std::int32_t slot = 0; slot < problem.topk; ++slot) {
        hidden.insert(hidden.end(), row, row + width);
      }
    }
    origin.tokens *= problem.topk;
    origin.hidden = std::move(hidden);
  }
  return split;
}

RowsByRoute combine_each(const Problem& split, const ProcessGroup& group) {
  const Trace trace(split, group);
  RowsByRoute rows;
  for (std::int32_t rank = 0; rank < split.ranks(); ++rank) {
    const auto combined = trace.combine(rank);
    const Names& ids = split.origins[static_cast<std::size_t>(rank)].ids;
    for (std::size_t route = 0; route < ids.size(); ++route) {
      if (!ids[route].empty()) rows[ids[route]] = combined[route];
    }
  }
  return rows;
}

}  // namespace

void expect_row(Report& report, const Value& object, std::string_view key,
                const std::vector<double>& derived, double unit, Code code) {
  const Value stated = object.at(key);
  const auto elements = stated.elements();
  if (elements.size() != derived.size()) {
    report.violation(code, stated, derived.size(), elements.size());
    return;
  }
  for (std::size_t i = 0; i < derived.size(); ++i) {
    report.expect_that(agrees(elements[i].json(), derived[i], unit), code, elements[i],
                       derived[i] / unit);
  }
}

void expect_outputs(Report& report, const Value& list, const Trace& trace) {
  const auto tokens = list.elements();
  std::size_t next = 0;
  for (std::int32_t rank = 0; rank < trace.group().size(); ++rank) {
    std::int32_t token = 0;
    for (const std::vector<double>& row : trace.combine(rank)) {
      if (next == tokens.size()) {
        report.violation(Code::CombineMismatch, list, "a row for each token", next);
        return;
      }
      const Value& stated = tokens[next++];
      report.guard(stated, [&] {
        report.expect(stated, "origin", fmt::format("p{}.t{}", rank, token),
                      {Code::CombineMismatch});
        expect_row(report, stated, "row", row, 100, Code::CombineMismatch);
        expect_row(report, stated, "row_hundredths", row, 1, Code::CombineMismatch);
      });
      ++token;
    }
  }
  report.expect_that(next == tokens.size(), Code::CombineMismatch, list, next);
}

RowsByRoute weighted_rows(const Problem& problem, const ProcessGroup& group) {
  return combine_each(one_token_a_route(problem), group);
}

RowsByRoute expert_rows(const Problem& problem, const ProcessGroup& group) {
  Problem split = one_token_a_route(problem);
  for (Origin& origin : split.origins) std::fill(origin.gates.begin(), origin.gates.end(), 1.0F);
  return combine_each(split, group);
}

}  // namespace waybill::conformance
