// model.safetensors.index.json: which shard holds each tensor of a checkpoint.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "io/faults.h"
#include "io/json_document.h"

namespace waybill {

// Tensor → name of its shard, which lies beside the index. MissingField and DocumentMalformed;
// InvalidValue when a shard's name is a path.
using ShardOfTensor = std::map<std::string, std::string, std::less<>>;
ShardOfTensor read_safetensors_index(const JsonDocument& document);
// With faults that are kept, the result lacks the tensors that have some.
ShardOfTensor read_safetensors_index(const JsonDocument& document, Faults& faults);

}  // namespace waybill
