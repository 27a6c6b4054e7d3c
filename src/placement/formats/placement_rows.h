// Slot lists of a placement without ranks, and the checks that all formats share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/json_document.h"
#include "waybill/placement_file.h"

namespace waybill {

// Experts by slot, one row a layer.
using SlotRows = std::vector<std::vector<std::int32_t>>;

// `rows` is an array of arrays of ids >= 0, all of one length. ShapeMismatch.
SlotRows read_slot_rows(JsonValue rows);
std::vector<std::int32_t> read_slot_row(JsonValue row);

// Slots of rank r are the r-th of equal runs. MissingField without ranks; SlotsNotEqual when the
// slots don't divide over them.
SlotLists over_ranks(const std::vector<std::int32_t>& slots, const FileHints& hints,
                     const std::string& file);

// Fills in the number of experts and checks ids and coverage of every layer: LogicalExpertMismatch
// and ReplicaCardinalityZero, with layer.
void check_table(PlacementTable& table, const FileHints& hints, const std::string& file);

// Layer number i of the table, for messages: its model layer where the table has one.
LayerId layer_at(const PlacementTable& table, std::size_t i);

// For writers. SlotsNotEqual, with layer and rank, where ranks have different numbers of slots.
SlotRows equal_rows(const PlacementTable& table, FileFormat format);
// MissingField for a placement of every layer, which states none.
void want_layers(const PlacementTable& table, FileFormat format);

// "[3,1,2]", and an array of such lines.
std::string row_text(std::span<const std::int32_t> row);
std::string rows_text(std::span<const std::vector<std::int32_t>> rows);

}  // namespace waybill
