// dispatch.json: counts, offsets, orders, positions and the way back, in rank order, in the
// communicator's peer order and with ties (reference text 0x03B, 0x03C).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "conformance/check.h"
#include "conformance/expert_segments.h"
#include "conformance/row_values.h"
#include "conformance/split_vectors.h"
#include "waybill/ledger.h"

namespace waybill::conformance {
namespace {

Json row_sums(const std::vector<Counts>& matrix) {
  Json sums = Json::array();
  for (const Counts& row : matrix) {
    std::int64_t sum = 0;
    for (const std::int32_t count : row) sum += count;
    sums.push_back(sum);
  }
  return sums;
}

Json rows_received(const Trace& trace) {
  Json sums = Json::array();
  for (std::int32_t rank = 0; rank < trace.group().size(); ++rank) {
    sums.push_back(trace.receive(rank).rows());
  }
  return sums;
}

RowLedger rows_of(const Trace& trace) {
  return row_ledger(trace.plans_in_peer_order(), trace.group());
}

void check_counts(Check& check, const Value& root) {
  Report& report = check.report;
  const Trace& trace = *check.trace;
  const auto matrix = trace.send_counts();
  expect_splits(report, root, "count_matrix", matrix, {Code::CountMatrixMismatch});
  report.expect(root, "row_sums", row_sums(matrix), {Code::CountMatrixMismatch});
  report.expect(root, "column_sums", rows_received(trace), {Code::CountMatrixMismatch});
  report.expect(root, "total", rows_of(trace).routes.value,
                {Code::CountMatrixMismatch, Code::RouteConservationMismatch});
  report.expect(root, "send_offsets", trace.send_offsets(), {Code::SendOffsetMismatch});
  expect_splits(report, root, "recv_splits", trace.recv_counts(), {Code::RecvSplitMismatch});
}

void check_orders(Check& check, const Value& root) {
  Report& report = check.report;
  const Trace& trace = *check.trace;
  report.expect(root, "send_order", trace.send_order(), {Code::SendOrderMismatch});
  report.expect(root, "send_segments", trace.send_segments(), {Code::SendOrderMismatch});
  report.expect(root, "receive_order", trace.receive_order(), {Code::ReceiveOrderMismatch});
  report.expect(root, "expert_order", trace.expert_order(), {Code::ExpertOrderMismatch});
  expect_expert_segments(report, root.at("expert_segments"), *check.problem, trace);
}

void check_positions(Check& check, const Value& root) {
  const auto derived = check.trace->positions();
  const auto entries = root.at("positions").elements();
  check.report.expect_that(entries.size() == derived.size(), Code::InversePositionMismatch,
                           root.at("positions"), derived.size());
  std::vector<std::string> names;
  for (const Value& entry : entries) {
    check.report.guard(entry, [&] {
      const std::string id = entry.at("id").text();
      const auto position = derived.find(id);
      const bool once = std::find(names.begin(), names.end(), id) == names.end();
      names.push_back(id);
      check.report.expect_that(once && position != derived.end(), Code::InversePositionMismatch,
                               entry.at("id"), "each accepted route once");
      if (position == derived.end()) return;
      const auto code = {Code::InversePositionMismatch};
      check.report.expect(entry, "source_send", position->second.send, code);
      check.report.expect(entry, "destination_receive", position->second.receive, code);
      check.report.expect(entry, "local_expert", position->second.expert, code);
    });
  }
}

// Splits swap roles; each source finds its own send order again.
void check_way_back(Check& check, const Value& root) {
  Report& report = check.report;
  const Trace& trace = *check.trace;
  Names home;
  for (std::int32_t rank = 0; rank < trace.group().size(); ++rank) {
    const Names names = trace.round_trip(rank);
    home.insert(home.end(), names.begin(), names.end());
  }
  report.expect(root, "round_trip", home, {Code::RoundTripMismatch});
  const Value back = root.at("return_path");
  report.expect(back, "return_send_order", trace.receive_order(), {Code::RoundTripMismatch});
  expect_splits(report, back, "return_send_splits", trace.recv_counts(),
                {Code::RecvSplitMismatch, Code::RoundTripMismatch});
  expect_splits(report, back, "return_recv_splits", trace.send_counts(),
                {Code::RecvSplitMismatch, Code::RoundTripMismatch});
  report.expect(back, "returned_order_at_source", trace.send_order(), {Code::RoundTripMismatch});
}

void check_combine(Check& check, const Value& root) {
  expect_outputs(check.report, root.at("combine"), *check.trace);
  check.report.expect(root, "combine_key", {"partition", "token"}, {Code::RouteIdentityCollision});
}

void check_padded(Check& check, const Value& root) {
  const Value padded = root.at("padded_all_to_all");
  const RowLedger rows = rows_of(*check.trace);
  const std::int64_t cells =
      std::int64_t{check.trace->group().size()} * check.trace->group().size();
  const auto code = {Code::PaddedCapacityMismatch};
  check.report.expect(padded, "cells", cells, code);
  check.report.expect(padded, "max_split", rows.padded.value / cells, code);
  check.report.expect(padded, "row_slots", rows.padded.value, code);
  check.report.expect(padded, "useful", rows.routes.value, code);
  check.report.expect(padded, "padding", rows.padded.value - rows.routes.value, code);
}

// The peer order that topology.json gives the whole group; the variant's own where the set has no
// topology.
std::vector<std::int32_t> communicator_order(const Check& check, const Value& variant) {
  if (const auto topology = check.set.find("topology")) {
    for (const Value& group : topology->at("groups").elements()) {
      if (group.at("kind").json() == "full_ep") return group.at("peer_order").ids();
    }
  }
  return variant.at("peer_order").ids();
}

void check_peer_variant(Check& check, const Value& root) {
  Report& report = check.report;
  const Value variant = root.at("peer_slot_variant");
  const std::vector<std::int32_t> order = communicator_order(check, variant);
  report.expect(variant, "group", check.trace->group().id().value, {Code::ProcessGroupMismatch});
  report.expect(variant, "peer_order", order, {Code::SplitVectorMismatch});
  const Trace trace(*check.problem, process_group(check.trace->group().id().value, order));
  expect_splits(report, variant, "send_counts", trace.send_counts(),
                {Code::SplitVectorMismatch, Code::CountMatrixMismatch});
  report.expect(variant, "send_offsets", trace.send_offsets(), {Code::SendOffsetMismatch});
  report.expect(variant, "send_order", trace.send_order(), {Code::SendOrderMismatch});
  expect_splits(report, variant, "recv_counts", trace.recv_counts(),
                {Code::SplitVectorMismatch, Code::RecvSplitMismatch});
  report.expect(variant, "receive_order", trace.receive_order(), {Code::ReceiveOrderMismatch});
  report.expect(variant, "expert_order_unchanged",
                trace.expert_order() == check.trace->expert_order(), {Code::ExpertOrderMismatch});
}

bool same_outputs(const Trace& one, const Trace& other) {
  for (std::int32_t rank = 0; rank < one.group().size(); ++rank) {
    if (one.combine(rank) != other.combine(rank)) return false;
  }
  return true;
}

void check_tie_case(Check& check, const Value& root) {
  Report& report = check.report;
  const Value tie = root.at("tie_case");
  Problem problem = *check.problem;
  for (const auto& [route, slot] : tie.at("reassign").members()) {
    report.guard(slot, [&, &route = route, &slot = slot] {
      const std::string name = slot.text();
      for (std::int32_t q = 0; q < problem.placement->slots(); ++q) {
        if (problem.placement->slot(SlotId{q}).name == name) return problem.assign(route, q);
      }
      throw slot.error(Code::SlotOutsideReplicaSet).expected("a slot").found(name);
    });
  }
  const Trace trace(problem, check.trace->group());
  expect_splits(report, tie, "count_matrix", trace.send_counts(), {Code::CountMatrixMismatch});
  report.expect(tie, "send_offsets", trace.send_offsets(), {Code::SendOffsetMismatch});
  report.expect(tie, "send_order", trace.send_order(), {Code::SendOrderMismatch});
  report.expect(tie, "receive_order", trace.receive_order(), {Code::ReceiveOrderMismatch});
  expect_expert_segments(report, tie.at("expert_segments"), problem, trace);
  report.expect(tie, "remote_rows", rows_of(trace).remote.value, {Code::RemoteRowMismatch});
  report.expect(tie, "outputs_unchanged", same_outputs(trace, *check.trace),
                {Code::CombineMismatch});
}

// The rank in "..._rank0".
std::int32_t rank_of_example(const Check& check, const Value& at, const std::string& key,
                             std::string_view start) {
  std::int32_t rank = -1;
  if (std::sscanf(key.c_str() + start.size(), "%d", &rank) != 1 || rank < 0 ||
      rank >= check.trace->group().size()) {
    throw at.error(Code::DestinationRankMismatch).expected("a rank of the group").found(key);
  }
  return rank;
}

// Rows in rank order cut at offsets in peer order: what each rank would then be given.
void check_wrong_send(Check& check, const Value& example, std::int32_t rank,
                      const std::vector<std::int32_t>& order) {
  const Trace by_peer(*check.problem, process_group(check.trace->group().id().value, order));
  const auto index = static_cast<std::size_t>(rank);
  const Names buffer = check.trace->send_order()[index];
  const Counts offsets = by_peer.send_offsets()[index];
  const auto code = {Code::SendOrderMismatch};
  check.report.expect(example, "buffer", buffer, code);
  check.report.expect(example, "offsets", offsets, {Code::SendOffsetMismatch});
  Json delivered = Json::object();
  for (std::size_t peer = 0; peer < order.size(); ++peer) {
    delivered[std::to_string(order[peer])] =
        Names(buffer.begin() + offsets[peer], buffer.begin() + offsets[peer + 1]);
  }
  check.report.expect(example, "delivered", delivered, code);
  check.report.expect(example, "error", name(Code::SendOrderMismatch), code);
}

// Received rows cut at expert-major counts, and the segments as they are.
void check_wrong_receive(Check& check, const Value& example, std::int32_t rank) {
  const Names arrived = check.trace->receive_order()[static_cast<std::size_t>(rank)];
  const auto offsets = check.trace->receive(rank).expert_offsets();
  const auto slots = check.problem->placement->slots_on(Rank{rank});
  const auto segments = check.trace->expert_segments(rank);
  Json counts = Json::array(), wrong = Json::object(), right = Json::object();
  for (std::size_t q = 0; q < slots.size(); ++q) {
    const std::string& slot = check.problem->placement->slot(slots[q]).name;
    counts.push_back(offsets[q + 1] - offsets[q]);
    wrong[slot] = Names(arrived.begin() + offsets[q], arrived.begin() + offsets[q + 1]);
    right[slot] = segments[q];
  }
  const auto code = {Code::ExpertOrderMismatch};
  check.report.expect(example, "receive_order", arrived, {Code::ReceiveOrderMismatch});
  check.report.expect(example, "counts", counts, {Code::SlotCountMismatch});
  check.report.expect(example, "wrong", wrong, code);
  check.report.expect(example, "right", right, code);
  check.report.expect(example, "error", name(Code::ExpertOrderMismatch), code);
}

void check_bad_examples(Check& check, const Value& root) {
  const auto examples = root.find("bad_examples");
  if (!examples) return;
  constexpr std::string_view wrong_send = "send_sorted_by_global_rank_with_peer_offsets_rank";
  constexpr std::string_view wrong_receive = "receive_read_as_expert_major_rank";
  const auto order = communicator_order(check, root.at("peer_slot_variant"));
  for (const auto& [key, example] : examples->members()) {
    check.report.guard(example, [&, &key = key, &example = example] {
      if (key.starts_with(wrong_send)) {
        check_wrong_send(check, example, rank_of_example(check, example, key, wrong_send), order);
      } else if (key.starts_with(wrong_receive)) {
        check_wrong_receive(check, example, rank_of_example(check, example, key, wrong_receive));
      } else {
        check.report.unchecked(fmt::format("{}#{}", example.file(), example.pointer()));
      }
    });
  }
}

}  // namespace

void check_dispatch(Check& check, const Value& root) {
  for (const auto part :
       {check_counts, check_orders, check_positions, check_way_back, check_combine, check_padded,
        check_peer_variant, check_tie_case, check_bad_examples}) {
    check.report.guard(root, [&] { part(check, root); });
  }
}

}  // namespace waybill::conformance
