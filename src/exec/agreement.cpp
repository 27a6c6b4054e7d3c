#include "exec/agreement.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <string>

#include "waybill/error.h"
#include "waybill/expert.h"
#include "waybill/hash.h"

namespace waybill {
namespace {

std::uint64_t slot_table_hash(const Placement& placement, const Topology& topology) {
  Fnv1a hash;
  const auto add = [&hash](std::int32_t id) { hash.add(std::as_bytes(std::span(&id, 1))); };
  for (std::int32_t q = 0; q < placement.slots(); ++q) {
    add(placement.expert_of(SlotId{q}).value);
    add(placement.rank_of(SlotId{q}).value);
  }
  for (std::int32_t rank = 0; rank < topology.ranks(); ++rank) {
    add(topology.node_of(Rank{rank}).value);
  }
  return hash.value();
}

std::string text(const AgreedLabel& label) {
  return {label.text.data(), ::strnlen(label.text.data(), label.text.size())};
}
std::string text(std::uint64_t value) { return std::to_string(value); }
std::string text(float value) {
  return std::string(Error(Code::InvalidValue).found(value).found_text());
}

struct Field {
  std::string_view name;
  Code code;
  std::string (*text)(const AgreedFacts&);
};

constexpr std::array fields{
    Field{"record", Code::AgreementMismatch, [](const AgreedFacts& f) { return text(f.record); }},
    Field{"process_group", Code::ProcessGroupMismatch,
          [](const AgreedFacts& f) { return text(f.process_group); }},
    Field{"group_epoch", Code::CollectiveEpochMismatch,
          [](const AgreedFacts& f) { return text(f.group_epoch); }},
    Field{"placement", Code::GenerationMismatch,
          [](const AgreedFacts& f) { return text(f.placement); }},
    Field{"generation", Code::GenerationMismatch,
          [](const AgreedFacts& f) { return text(f.generation); }},
    Field{"checkpoint", Code::CheckpointMismatch,
          [](const AgreedFacts& f) { return text(f.checkpoint); }},
    Field{"slot_table_hash", Code::GenerationMismatch,
          [](const AgreedFacts& f) { return text(f.slot_table); }},
    Field{"execution_scope", Code::AgreementMismatch,
          [](const AgreedFacts& f) { return text(f.execution_scope); }},
    Field{"layer", Code::AgreementMismatch,
          [](const AgreedFacts& f) { return std::to_string(f.layer); }},
    Field{"hidden", Code::AgreementMismatch,
          [](const AgreedFacts& f) { return std::to_string(f.hidden); }},
    Field{"experts", Code::AgreementMismatch,
          [](const AgreedFacts& f) { return std::to_string(f.experts); }},
    Field{"topk", Code::AgreementMismatch,
          [](const AgreedFacts& f) { return std::to_string(f.topk); }},
    Field{"dtype", Code::AgreementMismatch,
          [](const AgreedFacts& f) { return std::string(name(static_cast<DType>(f.dtype))); }},
    Field{"activation", Code::AgreementMismatch,
          [](const AgreedFacts& f) { return std::to_string(f.activation_kind); }},
    Field{"activation_alpha", Code::AgreementMismatch,
          [](const AgreedFacts& f) { return text(std::bit_cast<float>(f.activation_alpha)); }},
    Field{"activation_limit", Code::AgreementMismatch,
          [](const AgreedFacts& f) { return text(std::bit_cast<float>(f.activation_limit)); }},
    Field{
        "selector", Code::AgreementMismatch,
        [](const AgreedFacts& f) { return std::string(name(static_cast<Selector>(f.selector))); }},
    Field{"dedup", Code::AgreementMismatch,
          [](const AgreedFacts& f) { return std::string(f.dedup != 0 ? "on" : "off"); }},
    Field{"checks", Code::AgreementMismatch,
          [](const AgreedFacts& f) { return text(std::uint64_t{f.checks}); }},
    Field{"cpu_kernel_target", Code::AgreementMismatch,
          [](const AgreedFacts& f) { return text(f.kernel_target); }},
};

bool same(const AgreedFacts& a, const AgreedFacts& b) {
  return std::memcmp(&a, &b, sizeof(AgreedFacts)) == 0;
}

// The first field in which they differ; labels that are equal as far as they are kept differ in
// what their hash covers.
Error difference(const AgreedFacts& reference, Rank reference_rank, const AgreedFacts& other,
                 Rank other_rank) {
  const auto field = std::ranges::find_if(
      fields, [&](const Field& f) { return f.text(reference) != f.text(other); });
  const bool known = field != fields.end();
  Error error(known ? field->code : Code::AgreementMismatch);
  error.at("field", known ? field->name : "label")
      .at("rank", other_rank)
      .at("other_rank", reference_rank);
  if (known) error.expected(field->text(reference)).found(field->text(other));
  return error;
}

std::vector<std::string> strings_of(const FaultText& block) {
  std::vector<std::string> strings;
  for (std::size_t i = 0; i < block.size();) {
    const std::size_t length = ::strnlen(block.data() + i, block.size() - i);
    strings.emplace_back(block.data() + i, length);
    i += length + 1;
  }
  return strings;
}

Error fault_of(const AgreementRecord& record, Rank rank) {
  Code code = Code::PeerAborted;  // what a peer's number that is no code means at least
  find_code(std::int64_t{record.fault}, code);
  Error error(code);
  error.at("rank", rank);
  const std::vector<std::string> strings = strings_of(record.fault_text);
  if (!strings[0].empty()) error.expected(strings[0]);
  if (!strings[1].empty()) error.found(strings[1]);
  for (std::size_t i = 2; i + 1 < strings.size() && !strings[i].empty(); i += 2) {
    error.at(strings[i], strings[i + 1]);
  }
  return error;
}

}  // namespace

AgreedLabel::AgreedLabel(std::string_view label)
    : hash(Fnv1a().add(std::as_bytes(std::span(label))).value()) {
  label.substr(0, text.size()).copy(text.data(), text.size());
}

AgreedFacts::AgreedFacts(const LayerOptions& options, const ProcessGroup& group,
                         const Generation& pinned, const Topology& topology)
    : process_group(group.id().value),
      group_epoch(group.epoch().value),
      placement(pinned.version.value),
      generation(pinned.number),
      slot_table(slot_table_hash(pinned.layer(options.layer), topology)),
      checkpoint(pinned.checkpoint.value),
      execution_scope(options.execution_scope),
      kernel_target(cpu_kernel_target()),
      layer(options.layer.value),
      hidden(options.hidden),
      experts(options.experts),
      topk(options.topk),
      activation_kind(static_cast<std::uint32_t>(options.activation.kind)),
      activation_alpha(std::bit_cast<std::uint32_t>(options.activation.alpha)),
      activation_limit(std::bit_cast<std::uint32_t>(options.activation.limit)),
      dtype(static_cast<std::uint8_t>(options.dtype)),
      selector(static_cast<std::uint8_t>(options.selector)),
      dedup(options.dedup ? 1 : 0),
      checks(static_cast<std::uint8_t>(options.checks)) {}

void AgreementRecord::set_fault(const Error& error) {
  fault = static_cast<std::uint32_t>(error.code());
  std::size_t used = 0;
  const auto put = [&](std::initializer_list<std::string_view> strings) {
    std::size_t bytes = 0;
    for (const std::string_view string : strings) bytes += string.size() + 1;
    if (used + bytes > fault_text.size()) return;  // what doesn't fit is left out
    for (const std::string_view string : strings) {
      string.copy(fault_text.data() + used, string.size());
      used += string.size() + 1;
    }
  };
  put({error.expected_text(), error.found_text()});
  for (const auto& [coordinate, value] : error.where()) put({coordinate, value});
}

std::vector<AgreementRecord> agree(Communicator& comm, const AgreementRecord& mine) {
  std::vector<AgreementRecord> records(static_cast<std::size_t>(comm.size()));
  comm.all_gather("agreement", std::as_bytes(std::span(&mine, 1)),
                  std::as_writable_bytes(std::span(records)));
  const ProcessGroup& group = comm.group();
  const PeerSlot lowest = group.by_rank().front();
  const AgreedFacts& reference = records[lowest.index()].facts;
  for (const PeerSlot peer : group.by_rank()) {
    const AgreementRecord& record = records[peer.index()];
    if (!same(reference, record.facts)) {
      throw difference(reference, group.rank_of(lowest), record.facts, group.rank_of(peer));
    }
  }
  for (const PeerSlot peer : group.by_rank()) {
    const AgreementRecord& record = records[peer.index()];
    if (record.fault != 0) throw fault_of(record, group.rank_of(peer));
  }
  return records;
}

}  // namespace waybill
