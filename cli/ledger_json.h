// Ledgers, models and options as JSON: what the reports of `run` and `plan` share. The kind of
// evidence stands in the key: rows, logical_bytes, live_bytes, *_ns.
#pragma once

#include <nlohmann/json.hpp>

#include "step_options.h"
#include "waybill/checkpoint.h"
#include "waybill/ledger.h"

namespace waybill::cli {

nlohmann::ordered_json to_json(const RowLedger& rows);
nlohmann::ordered_json to_json(const ByteLedger& bytes);
nlohmann::ordered_json to_json(const LiveLedger& live);
nlohmann::ordered_json to_json(const ModelConfig& model);
nlohmann::ordered_json to_json(const StepOptions& options);

}  // namespace waybill::cli
