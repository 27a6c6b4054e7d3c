// What ranks agree on before payload moves: one record of fixed size a rank, gathered by all. Every
// rank draws the same conclusion from the same records, so a disagreement is one error everywhere.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "waybill/comm.h"
#include "waybill/layer.h"

namespace waybill {

// A label of any length: its beginning for messages, a hash for the comparison.
struct AgreedLabel {
  std::uint64_t hash = 0;
  std::array<char, 40> text{};

  AgreedLabel() = default;
  explicit AgreedLabel(std::string_view label);
};

// Facts that must be equal on all ranks.
struct AgreedFacts {
  std::uint64_t record = 0x57425941'00000001;  // magic and version of the record itself
  AgreedLabel process_group;
  std::uint64_t group_epoch = 0;
  AgreedLabel placement;
  std::uint64_t generation = 0;
  std::uint64_t slot_table = 0;  // hash of (slot, expert, rank) and of the nodes
  AgreedLabel checkpoint;
  AgreedLabel execution_scope;
  AgreedLabel kernel_target;
  std::int32_t layer = 0, hidden = 0, experts = 0, topk = 0;
  std::uint32_t activation_kind = 0, activation_alpha = 0, activation_limit = 0;  // float bits
  std::uint8_t dtype = 0, selector = 0, dedup = 0, checks = 0;

  AgreedFacts() = default;
  AgreedFacts(const LayerOptions& options, const ProcessGroup& group, const Generation& generation,
              const Topology& topology);
};
// Compared as bytes.
static_assert(std::has_unique_object_representations_v<AgreedFacts>);

// Zero-terminated strings: expected, found, then name and value of each coordinate.
using FaultText = std::array<char, 404>;

struct AgreementRecord {
  AgreedFacts facts;
  std::int64_t tokens = 0;
  std::int64_t accepted = 0;  // routes
  std::uint32_t fault = 0;    // 0, or the code of what this rank found on its own
  FaultText fault_text{};

  // Why this rank can't take part; every rank will throw it.
  void set_fault(const Error& error);
};
// Sent as bytes.
static_assert(std::has_unique_object_representations_v<AgreementRecord>);

// Gathers the records in peer order. Throws, the same on every rank: ProcessGroupMismatch,
// CollectiveEpochMismatch, GenerationMismatch, CheckpointMismatch or AgreementMismatch with field,
// both ranks and both values; else the fault of the lowest rank that reports one, with its rank.
std::vector<AgreementRecord> agree(Communicator& comm, const AgreementRecord& mine);

}  // namespace waybill
