// Placements as other systems exchange them, and our own schema, which holds what all of them do:
// docs/balance.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "waybill/balance.h"
#include "waybill/ids.h"
#include "waybill/load.h"
#include "waybill/load_file.h"

namespace waybill {

// How a placement came about.
struct PlanRecord {
  std::string solver = {};  // empty: not stated
  double ratio_before = 1;  // largest over mean rank, mean over layers
  double ratio_after = 1;
  std::int64_t changed_slots = 0;
  std::uint64_t migration_bytes = 0;
};

// Slots by rank for each layer, and what a file says beside them.
struct PlacementTable {
  FileFormat format = FileFormat::waybill;
  std::int32_t experts = 0;
  bool every_layer = false;                // one placement that serves every layer: `slots` has one
  std::vector<LayerId> layers = {};        // [L], in the whole model; empty with every_layer
  std::vector<LayerId> dense_layers = {};  // of the model
  std::vector<SlotLists> slots = {};       // [L]
  std::vector<SlotLists> replicas = {};    // [L] like slots: which copy of its expert each slot is;
                                           // empty: copies count up through the slots
  std::vector<NodeId> node_of = {};        // [P]; empty: not stated
  // [L][E] of parameters; empty: not stated
  std::vector<std::vector<std::string>> fingerprints = {};
  PlacementVersion version = {};
  std::uint64_t generation = 0;
  CheckpointVersion checkpoint = {};
  ProcessGroupId group = {};
  PlanRecord plan = {};
  LoadProvenance load = {};  // that it was planned for

  std::int32_t ranks() const { return static_cast<std::int32_t>(slots.front().size()); }
};

// Reads a placement of any format; every expert of every layer has a slot (ReplicaCardinalityZero
// otherwise, with layer and expert). MissingField when the file doesn't say how many ranks there
// are and `hints` don't either; SlotsNotEqual when slots don't divide over them;
// LogicalExpertMismatch for an id outside [0, E); PlacementMapMismatch for maps that contradict
// each other.
PlacementTable read_placement_table(const std::string& path, const FileHints& hints = {});

// SlotsNotEqual, with layer and rank, where the format can't state unequal slots; MissingField for
// a placement of every layer in a format that lists layers; OptionNotBuilt for a format without
// placements; FileUnwritable. The file appears whole or not at all.
void write_placement_table(const std::string& path, FileFormat format, const PlacementTable& table);
std::string placement_text(FileFormat format, const PlacementTable& table);

// Whether a file holds loads rather than a placement.
bool holds_loads(const std::string& path);

// The lists in force for `layers`: one a layer of the table, or its only one for each. MissingField
// for a layer that the table doesn't have.
std::vector<SlotLists> lists_for(const PlacementTable& table, std::span<const LayerId> layers);

// Which copy of its expert each slot is, counted up through ranks and slots.
SlotLists replica_numbers(const SlotLists& slots, std::int32_t experts);

}  // namespace waybill
