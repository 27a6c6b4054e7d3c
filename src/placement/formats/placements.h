// Placements of each format, between text and table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/json_document.h"
#include "waybill/placement_file.h"

namespace waybill {

// {"physical_to_logical_map": [L][P]}; L counts dense layers.
PlacementTable sglang_placement(const JsonDocument& document, const FileHints& hints);
std::string sglang_text(const PlacementTable& table);

// A list of P ids for every layer, or one list a MoE layer.
PlacementTable vllm_placement(const JsonDocument& document, const FileHints& hints);
std::string vllm_text(const PlacementTable& table);

// The public solver's results: phy2log, phyrank, log2phy padded with -1, logcnt; or under the names
// that its callers use. All but the first may be absent; those that are there must agree.
bool is_eplb(JsonValue root);
PlacementTable eplb_placement(const JsonDocument& document, const FileHints& hints);
std::string eplb_text(const PlacementTable& table);

// {"moe_layer_count", "layer_list": [{"layer_id", "device_list": [{"device_expert"}]}]}
PlacementTable ascend_placement(const JsonDocument& document, const FileHints& hints);
std::string ascend_text(const PlacementTable& table);

// The balancer's YAML: num_slots, initial_global_assignments by model layer.
PlacementTable tensorrt_llm_placement(const JsonDocument& document, const FileHints& hints);
std::string tensorrt_llm_text(const PlacementTable& table);

// Our placement manifest with the fields that docs/balance.md adds.
PlacementTable waybill_placement(const JsonDocument& document, const FileHints& hints);
std::string waybill_text(const PlacementTable& table);

}  // namespace waybill
