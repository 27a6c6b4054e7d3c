// The readers of loads, one a format. Each leaves layers to series_of().
#pragma once

#include <span>
#include <string>
#include <vector>

#include "io/json_document.h"
#include "placement/formats/load_rows.h"

namespace waybill {

// Our schema, its short forms ({"load": [[…]]}, {"weight": [[…]]}, a bare array) and files of
// several named sets.
LoadRows waybill_loads(const JsonDocument& document, const FileHints& hints);

// {"logical_count": [W][L][E] or [L][E]}, or detail dumps of one or more ranks,
// {"records": [{"global_physical_count": [L][P]}], "last_physical_to_logical_map": [L][P]}.
LoadRows sglang_loads(std::span<const JsonDocument> documents);
bool is_sglang(JsonValue root);

// A folder of meta_info.json and rank<r>.safetensors.
LoadRows tensorrt_llm_loads(const std::string& folder);

// mcore_ep_loads_rank<r>_*.npz of all ranks.
LoadRows megatron_loads(std::span<const std::string> paths, const FileHints& hints);

}  // namespace waybill
