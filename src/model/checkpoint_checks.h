// Opening a checkpoint with every fault reported.
#pragma once

#include <optional>
#include <string>

#include "io/faults.h"
#include "waybill/checkpoint.h"

namespace waybill {

// The errors of Checkpoint::open; nullopt with faults that are kept.
std::optional<ModelConfig> check_checkpoint(const std::string& directory, Faults& faults);

}  // namespace waybill
