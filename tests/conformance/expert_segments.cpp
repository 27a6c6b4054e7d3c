#include "conformance/expert_segments.h"

#include <utility>

namespace waybill::conformance {
namespace {

void expect_segment(Report& report, const Value& segment, const Slot& slot, const Names& rows) {
  report.expect(segment, "slot", slot.name, {Code::LocalSlotOrderMismatch});
  if (segment.find("logical_expert")) {
    report.expect(segment, "logical_expert", slot.expert.value, {Code::LogicalExpertMismatch});
  }
  report.expect(segment, "rows", rows, {Code::ExpertOrderMismatch});
}

void expect_rank(Report& report, const Value& stated, Rank rank, const Problem& problem,
                 const Trace& trace) {
  report.expect(stated, "rank", rank.value, {Code::DestinationRankMismatch});
  const std::vector<Names> rows = trace.expert_segments(rank.value);
  const auto slots = problem.placement->slots_on(rank);
  const auto segments = stated.at("segments").elements();
  report.expect_that(segments.size() == slots.size(), Code::LocalSlotOrderMismatch,
                     stated.at("segments"), slots.size());
  Json counts = Json::array();
  for (std::size_t q = 0; q < slots.size(); ++q) {
    counts.push_back(rows[q].size());
    if (q >= segments.size()) continue;
    expect_segment(report, segments[q], problem.placement->slot(slots[q]), rows[q]);
  }
  // Offsets are the sums of the counts beside them, so wrong counts break both contracts.
  if (stated.find("counts")) {
    report.expect(stated, "counts", counts, {Code::SlotCountMismatch, Code::ExpertOffsetMismatch});
  }
  const auto offsets = trace.receive(rank.value).expert_offsets();
  report.expect(stated, "offsets", Counts(offsets.begin(), offsets.end()),
                {Code::ExpertOffsetMismatch});
}

}  // namespace

void expect_expert_segments(Report& report, const Value& list, const Problem& problem,
                            const Trace& trace) {
  const auto ranks = list.elements();
  report.expect_that(std::cmp_equal(ranks.size(), trace.group().size()), Code::GroupShapeMismatch,
                     list, trace.group().size());
  for (std::size_t i = 0; i < ranks.size() && std::cmp_less(i, trace.group().size()); ++i) {
    report.guard(ranks[i], [&] {
      expect_rank(report, ranks[i], Rank{static_cast<std::int32_t>(i)}, problem, trace);
    });
  }
}

}  // namespace waybill::conformance
