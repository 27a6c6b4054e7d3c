// The JSON documents of a checkpoint folder: config.json or the index of its shards.
#include "fuzz/target.h"
#include "io/json_document.h"
#include "io/safetensors_index.h"
#include "model/model_config.h"

namespace waybill::fuzz {
namespace {

void read_config(std::string_view text) {
  const ModelConfig model = read_model_config(JsonDocument::parse(text, "config.json")).model;
  require(model.experts >= 1 && model.topk >= 1 && model.topk <= model.experts);
  require(model.hidden >= 1 && model.ff >= 1);
  require(!model.moe_layers.empty() && model.moe_layers.back().value < model.layers);
}

void read_index(std::string_view text) {
  for (const auto& [tensor, shard] : read_safetensors_index(JsonDocument::parse(text, "i.json"))) {
    require(!shard.empty() && shard.find('/') == std::string::npos);
  }
}

}  // namespace

void read(std::string_view bytes) {
  take_kind(bytes, 2) == 0 ? read_config(bytes) : read_index(bytes);
}

}  // namespace waybill::fuzz
