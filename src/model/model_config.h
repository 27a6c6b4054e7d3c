// config.json of a checkpoint, read by its family's rules.
#pragma once

#include "io/faults.h"
#include "io/json_document.h"
#include "model/family.h"
#include "waybill/checkpoint.h"

namespace waybill {

struct FamilyConfig {
  Family family;
  ModelConfig model;
};

// Errors as Checkpoint::open declares them for config.json.
FamilyConfig read_model_config(const JsonDocument& document);
// With faults that are kept, the result is only fit to be thrown away.
FamilyConfig read_model_config(const JsonDocument& document, Faults& faults);

}  // namespace waybill
