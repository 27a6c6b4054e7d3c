// bytes.json: the byte ledger, the tables, the lifetimes and their peak (reference text 0x03D).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "conformance/check.h"
#include "waybill/dtype.h"
#include "waybill/ledger.h"

namespace waybill::conformance {
namespace {

constexpr std::int64_t largest_field = std::int64_t{1} << 40;

// The file names widths as engines do.
std::optional<DType> dtype_named(const std::string& name) {
  for (const auto& [text, dtype] : {std::pair{"bf16", DType::bf16},
                                    {"fp16", DType::f16},
                                    {"fp32", DType::f32},
                                    {"int32", DType::i32},
                                    {"int64", DType::i64},
                                    {"fp64", DType::f64},
                                    {"int16", DType::i16},
                                    {"int8", DType::i8},
                                    {"uint8", DType::u8},
                                    {"fp8", DType::f8_e4m3}}) {
    if (name == text) return dtype;
  }
  return std::nullopt;
}

Representation read_representation(const Value& root) {
  const Value stated = root.at("representation");
  const Value metadata = root.at("metadata");
  const auto size = [](const Value& value) { return value.integer(0, largest_field); };
  Representation r;
  r.hidden = size(stated.at("d"));
  r.activation_bytes = size(stated.at("activation_bytes"));
  r.output_bytes = size(stated.at("output_bytes"));
  r.coordinate_bytes = size(stated.at("coordinate_bytes"));
  r.metadata_bytes = size(stated.at("metadata_bytes"));
  r.dispatch_fields = size(metadata.at("dispatch_fields_per_row"));
  r.combine_fields = size(metadata.at("combine_fields_per_row"));
  r.handle_fields = size(metadata.at("handle_fields_per_row"));
  r.local_bypass = root.at("remote").at("local_bypass").boolean();
  return r;
}

// Everything that the library's ledger gives for this set.
struct Figures {
  Representation representation;
  RowLedger rows;
  ByteLedger bytes;
  std::int64_t ranks = 0;
  std::vector<std::int64_t> offset_entries;  // [P] local slots and the sentinel

  std::int64_t entries() const {
    return std::accumulate(offset_entries.begin(), offset_entries.end(), std::int64_t{0});
  }
};

Figures figures_of(const Check& check, const Value& root) {
  Figures f;
  f.representation = read_representation(root);
  f.rows = row_ledger(check.trace->plans_in_peer_order(), check.trace->group());
  f.ranks = check.trace->group().size();
  for (std::int32_t rank = 0; rank < f.ranks; ++rank) {
    f.offset_entries.push_back(std::ssize(check.trace->receive(rank).expert_offsets()));
  }
  f.bytes = byte_ledger(f.rows, f.representation, f.ranks, f.entries());
  return f;
}

void check_representation(Check& check, const Value& root) {
  const Value stated = root.at("representation");
  for (const std::string field : {"activation", "output", "coordinate", "metadata"}) {
    const Value dtype_name = stated.at(field + "_dtype");
    const auto dtype = dtype_named(dtype_name.text());
    check.report.expect_that(dtype.has_value(), Code::DtypeRoleMismatch, dtype_name, "a dtype");
    if (dtype) {
      check.report.expect(stated, field + "_bytes", size_of(*dtype), {Code::DtypeRoleMismatch});
    }
  }
  // Gates stay FP32 at the origin.
  check.report.expect(stated, "gate_dtype", "fp32", {Code::DtypeRoleMismatch});
  check.report.expect(stated, "d", check.problem->width, {Code::StageBytesMismatch});
}

void check_staging(Report& report, const Value& root, const Figures& f) {
  const Value staging = root.at("staging");
  const auto code = {Code::StageBytesMismatch};
  const std::int64_t dispatch = f.bytes.stage_dispatch.value, combine = f.bytes.stage_combine.value;
  report.expect(staging, "rows", f.rows.routes.value, code);
  report.expect(staging, "dispatch", dispatch, code);
  report.expect(staging, "combine", combine, code);
  report.expect(staging, "round_trip", dispatch + combine, code);
}

// Accepted routes in semantic order that stay on their rank, or leave it.
Json routes_that(const Check& check, bool stay) {
  Json names = Json::array();
  for (std::int32_t rank = 0; rank < check.problem->ranks(); ++rank) {
    const Origin& origin = check.problem->origins[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < origin.ids.size(); ++i) {
      if (origin.assigned[i] == dropped_route) continue;
      const bool local =
          check.problem->placement->rank_of(SlotId{origin.assigned[i]}) == Rank{rank};
      if (local == stay) names.push_back(origin.ids[i]);
    }
  }
  return names;
}

void check_remote(Check& check, const Value& root, const Figures& f) {
  Report& report = check.report;
  const Value remote = root.at("remote");
  const auto rows = {Code::RemoteRowMismatch}, payload = {Code::RemotePayloadMismatch};
  report.expect(remote, "rows", f.rows.remote.value, rows);
  report.expect(remote, "local_rows", f.rows.local.value, rows);
  report.expect(remote, "local_routes", routes_that(check, true), rows);
  report.expect(remote, "remote_routes", routes_that(check, false), rows);
  const ByteLedger& b = f.bytes;
  report.expect(remote, "dispatch_payload", b.remote_dispatch.value, payload);
  report.expect(remote, "combine_payload", b.remote_combine.value, payload);
  report.expect(remote, "logical_total", b.remote_logical.value, payload);
  report.expect(remote, "logical_total_formula",
                fmt::format("{}+{}+{}+{}", b.remote_dispatch.value, b.remote_combine.value,
                            b.dispatch_metadata.value, b.combine_metadata.value),
                payload);
}

void check_metadata(Report& report, const Value& root, const Figures& f) {
  const Value metadata = root.at("metadata");
  const auto code = {Code::MetadataBytesMismatch};
  report.expect(metadata, "dispatch_bytes", f.bytes.dispatch_metadata.value, code);
  report.expect(metadata, "combine_bytes", f.bytes.combine_metadata.value, code);
  report.expect(metadata, "route_handle_bytes", f.bytes.route_handle.value, code);
}

void check_table_bytes(Report& report, const Value& root, const Figures& f) {
  const Value tables = root.at("tables");
  const auto expect = [&](const std::string& table, std::int64_t entries, LogicalBytes bytes) {
    report.expect(tables, table + "_entries", entries, {Code::TableBytesMismatch});
    report.expect(tables, table + "_bytes", bytes.value, {Code::TableBytesMismatch});
  };
  expect("count_matrix", f.ranks * f.ranks, f.bytes.count_matrix);
  expect("send_offset", f.ranks * (f.ranks + 1), f.bytes.send_offsets);
  expect("recv_split", f.ranks * f.ranks, f.bytes.recv_splits);
  expect("local_expert_offset", f.entries(), f.bytes.local_expert_offsets);
  report.expect(tables, "entries_by_rank", f.offset_entries, {Code::TableBytesMismatch});
}

std::int64_t read_count(std::string_view digits) {
  std::int64_t count = -1;
  const char* end = digits.data() + digits.size();
  const auto [last, failed] = std::from_chars(digits.data(), end, count);
  return failed == std::errc{} && last == end ? count : -1;
}

std::int64_t product_of(const std::string& formula) {
  std::int64_t product = 1;
  for (std::size_t at = 0; at < formula.size();) {
    const std::size_t end = std::min(formula.find('*', at), formula.size());
    const std::int64_t factor = read_count(std::string_view(formula).substr(at, end - at));
    if (factor < 0 || __builtin_mul_overflow(product, factor, &product)) return -1;
    at = end + 1;
  }
  return product;
}

std::string text_or_empty(const Value& value) {
  return value.json().is_null() ? std::string() : value.text();
}

void check_buffer(Report& report, const Value& stated, const Buffer& derived) {
  const auto bytes = {Code::BufferBytesMismatch};
  report.expect(stated, "bytes", derived.bytes.value, bytes);
  const Value formula = stated.at("formula");
  report.expect_that(product_of(formula.text()) == derived.bytes.value, Code::BufferBytesMismatch,
                     formula, derived.bytes.value);
  report.expect(stated, "release_needs", derived.release_needs,
                {Code::EarlyRelease, Code::MissingDependency});
  const Json group = derived.alias_group.empty() ? Json() : Json(derived.alias_group);
  report.expect(stated, "alias_group", group, {Code::AliasOverlap});
}

std::vector<PhaseEvent> read_events(const Value& root) {
  std::vector<PhaseEvent> events;
  for (const Value& event : root.at("events").elements()) {
    events.push_back({event.at("name").text(), event.at("stream").text(), event.at("after").texts(),
                      event.at("epoch").integer(0, 1 << 20)});
  }
  return events;
}

void check_events(Check& check, const Value& root) {
  const std::vector<PhaseEvent> events = read_events(root);
  const std::vector<PhaseEvent> step = step_events();
  const Value list = root.at("events");
  check.report.guard(list, [&] { waybill::check_events(events); });
  const auto stated = list.elements();
  check.report.expect_that(events.size() == step.size(), Code::MissingDependency, list,
                           step.size());
  for (std::size_t i = 0; i < std::min(events.size(), step.size()); ++i) {
    check.report.expect(stated[i], "name", step[i].name, {Code::MissingDependency});
    check.report.expect(stated[i], "stream", step[i].stream, {Code::MissingDependency});
    check.report.expect(stated[i], "after", step[i].after, {Code::MissingDependency});
  }
}

// An event that buffers wait for happens when the first of them is released.
void check_event_epochs(Report& report, const Value& root, const std::vector<Buffer>& buffers) {
  for (const Value& event : root.at("events").elements()) {
    std::int64_t first = -1;
    for (const Buffer& buffer : buffers) {
      if (buffer.release_needs != event.at("name").text()) continue;
      if (first < 0 || buffer.release < first) first = buffer.release;
    }
    if (first >= 0 && event.at("epoch").integer() <= first) {
      report.expect(event, "epoch", first, {Code::EpochBeforeDependency});
    }
  }
}

void check_live(Report& report, const Value& root, const LiveLedger& live) {
  const Value expected = root.at("expected");
  const auto peak = {Code::PeakMismatch};
  Json by_epoch = Json::object();
  for (std::size_t epoch = 0; epoch < live.by_epoch.size(); ++epoch) {
    by_epoch[std::to_string(epoch)] = live.by_epoch[epoch].value;
  }
  report.expect(root, "live_by_epoch", by_epoch, peak);
  report.expect(expected, "buffer_count", root.at("buffers").elements().size(),
                {Code::BufferBytesMismatch, Code::PeakMismatch});
  report.expect(expected, "sum_bytes", live.sum.value,
                {Code::BufferBytesMismatch, Code::PeakMismatch});
  report.expect(expected, "peak_bytes", live.peak.value, peak);
  report.expect(expected, "peak_epoch", live.peak_epoch, peak);
  report.expect(expected, "peak_members", live.peak_members, peak);
}

// Sizes are the library's; lifetimes are the file's, which the library checks and sums.
void check_buffers(Check& check, const Value& root, const Figures& f) {
  const std::vector<Buffer> derived = step_buffers(f.rows, f.bytes, f.representation);
  std::vector<Buffer> buffers;
  const auto stated = root.at("buffers").elements();
  check.report.expect_that(stated.size() == derived.size(), Code::BufferBytesMismatch,
                           root.at("buffers"), derived.size());
  for (const Value& entry : stated) {
    const std::string name = entry.at("name").text();
    const auto known = std::find_if(derived.begin(), derived.end(),
                                    [&](const Buffer& buffer) { return buffer.name == name; });
    check.report.expect_that(known != derived.end(), Code::BufferBytesMismatch, entry.at("name"),
                             "a buffer of the step");
    if (known == derived.end()) continue;
    check.report.guard(entry, [&] { check_buffer(check.report, entry, *known); });
    buffers.push_back({name, known->bytes, entry.at("alloc").integer(0, 1 << 20),
                       entry.at("release").integer(0, 1 << 20), entry.at("release_needs").text(),
                       text_or_empty(entry.at("alias_group"))});
  }
  check_event_epochs(check.report, root, buffers);
  LiveLedger live;
  const auto measure = [&] { live = live_ledger(buffers, read_events(root)); };
  if (check.report.guard(root.at("buffers"), measure)) check_live(check.report, root, live);
}

// Only ledgers that follow from shapes can be computed; the others need counters and clocks.
void check_ledger_kinds(Check& check, const Value& root) {
  for (const Value& ledger : root.at("ledgers").elements()) {
    const std::string name = ledger.at("name").text();
    const bool measured = name.starts_with("measured") || name.starts_with("elapsed");
    check.report.expect(ledger, "executable", !measured, {Code::UnsupportedClaim});
  }
}

// Every premature release names the events that it should have waited for.
void check_release_rules(Check& check, const Value& root) {
  std::vector<std::string> events;
  for (const PhaseEvent& event : step_events()) events.push_back(event.name);
  constexpr std::string_view then = " then ";
  for (const Value& rule : root.at("release_rules").elements()) {
    const std::string fence = rule.at("fence").text();
    for (std::size_t at = 0; at < fence.size();) {
      const std::size_t end = std::min(fence.find(then, at), fence.size());
      const bool known =
          std::find(events.begin(), events.end(), fence.substr(at, end - at)) != events.end();
      check.report.expect_that(known, Code::MissingDependency, rule.at("fence"), "events");
      at = end + then.size();
    }
  }
}

void check_alias(Check& check, const Value& root) {
  for (const Buffer& buffer : step_buffers({}, {}, {})) {
    if (buffer.alias_group.empty()) continue;
    check.report.expect(root.at("alias"), "group", buffer.alias_group, {Code::AliasOverlap});
  }
}

// "4" where the ratio is a whole number, else "7/2".
Json ratio(std::int64_t numerator, std::int64_t denominator) {
  const std::int64_t divisor = std::gcd(numerator, denominator);
  if (divisor == 0 || denominator == 0) return nullptr;
  if (denominator == divisor) return numerator / divisor;
  return fmt::format("{}/{}", numerator / divisor, denominator / divisor);
}

void check_padded_bytes(Report& report, const Value& root, const Figures& f) {
  const Value padded = root.at("padded");
  const auto code = {Code::PaddedCapacityMismatch};
  const ByteLedger& b = f.bytes;
  report.expect(padded, "row_slots", f.rows.padded.value, code);
  report.expect(padded, "per_direction", b.padded_dispatch.value, code);
  report.expect(padded, "round_trip", b.padded_dispatch.value + b.padded_combine.value, code);
  report.expect(padded, "useful_per_direction", b.stage_dispatch.value, code);
  report.expect(padded, "useful_round_trip", b.stage_dispatch.value + b.stage_combine.value, code);
  report.expect(padded, "ratio", ratio(f.rows.padded.value, f.rows.routes.value), code);
}

// "3/4", or a whole number; at most 1.
std::pair<std::int64_t, std::int64_t> read_fraction(const Value& stated) {
  const std::string text = stated.text();
  const std::size_t bar = text.find('/');
  const std::int64_t numerator = read_count(std::string_view(text).substr(0, bar));
  const std::int64_t denominator =
      bar == std::string::npos ? 1 : read_count(std::string_view(text).substr(bar + 1));
  if (numerator < 0 || denominator < 1 || numerator > denominator) {
    throw stated.error(Code::RemoteRowMismatch).expected("a fraction up to 1").found(text);
  }
  return {numerator, denominator};
}

// The same ledger at a size where rows are counted, not listed.
void check_large(Check& check, const Value& root) {
  const auto large = root.find("large_case");
  if (!large) return;
  const auto size = [&](std::string_view key) { return large->at(key).integer(0, largest_field); };
  const Value fraction = large->at("remote_fraction");
  const auto [numerator, denominator] = read_fraction(fraction);
  RowLedger rows;
  std::int64_t routes = 0, remote = 0;
  if (__builtin_mul_overflow(size("T"), size("k"), &routes) ||
      __builtin_mul_overflow(routes, numerator, &remote)) {
    throw large->error(Code::StageBytesMismatch).expected("rows below 2^63");
  }
  rows.routes = rows.payload = Rows{routes};
  rows.remote = rows.remote_payload = Rows{remote / denominator};
  Representation representation;
  representation.hidden = size("d");
  representation.activation_bytes = representation.output_bytes = size("bytes_per_element");
  const ByteLedger bytes = byte_ledger(rows, representation, 1, 0);
  const std::int64_t one = bytes.stage_dispatch.value, both = one + bytes.stage_combine.value;
  const std::int64_t crossing = bytes.remote_dispatch.value + bytes.remote_combine.value;
  const auto expect = [&](const std::string& key, std::int64_t value, Code code) {
    check.report.expect(*large, key, value, {code});
    check.report.expect(*large, key + "_mib", ratio(value, std::int64_t{1} << 20), {code});
  };
  expect("one_direction", one, Code::StageBytesMismatch);
  expect("round_trip", both, Code::StageBytesMismatch);
  expect("remote_round_trip", crossing, Code::RemotePayloadMismatch);
}

}  // namespace

void check_bytes(Check& check, const Value& root) {
  Report& report = check.report;
  for (const auto part : {check_representation, check_ledger_kinds, check_events,
                          check_release_rules, check_alias, check_large}) {
    report.guard(root, [&] { part(check, root); });
  }
  const Figures f = figures_of(check, root);
  for (const auto part : {check_staging, check_metadata, check_table_bytes, check_padded_bytes}) {
    report.guard(root, [&] { part(report, root, f); });
  }
  for (const auto part : {check_remote, check_buffers}) {
    report.guard(root, [&] { part(check, root, f); });
  }
}

}  // namespace waybill::conformance
