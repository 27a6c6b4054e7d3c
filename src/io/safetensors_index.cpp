#include "io/safetensors_index.h"

#include <string_view>

#include "waybill/error.h"

namespace waybill {
namespace {

// A shard lies beside its index: its name is one path component.
std::string_view shard_name(const JsonValue& value) {
  const std::string_view name = value.as_string();
  const bool plain = !name.empty() && name != "." && name != ".." &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
  if (!plain) {
    throw value.error(Code::InvalidValue)
        .expected("a file name without a path")
        .found(value.text());
  }
  return name;
}

}  // namespace

ShardOfTensor read_safetensors_index(const JsonDocument& document) {
  Faults first;
  return read_safetensors_index(document, first);
}

ShardOfTensor read_safetensors_index(const JsonDocument& document, Faults& faults) {
  ShardOfTensor shards;
  for (const JsonValue value : document.root().at("weight_map").members()) {
    faults.attempt([&] { shards.emplace(value.key(), shard_name(value)); });
  }
  return shards;
}

}  // namespace waybill
