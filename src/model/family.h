// What a family of checkpoints writes down: names and layout of the tensors of its MoE blocks, and
// what its config.json means. A family is one file in families/ and one line in families/list.def.
// Source of the facts: each family's model and configuration classes in Hugging Face transformers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/checkpoint.h"

namespace waybill {

class ConfigFields;

// What an axis of a stored expert tensor runs over.
enum class Axis : std::uint8_t {
  expert,         // E: the tensor holds all experts of its layer
  hidden,         // d
  ff,             // intermediate width
  gate_then_up,   // 2·ff: all of gate, then all of up
  gate_up_pairs,  // 2·ff: gate 0, up 0, gate 1, up 1, …
};

// Which projections a stored expert tensor holds.
enum class Part : std::uint8_t {
  gate,
  up,
  gate_up,
  down,
  gate_bias,
  up_bias,
  gate_up_bias,
  down_bias,
};

// One tensor of a block's experts: its axes in the order of the file declare shape and layout both.
struct ExpertTensor {
  Part part = Part::gate;
  std::string_view name;  // under the block; "{expert}" is the expert's number
  std::vector<Axis> axes;

  bool holds_all_experts() const;
};

// Names under the block; empty: the family has no such tensor.
struct RouterTensors {
  std::string_view weight = {};          // [E, d]
  std::string_view bias = {};            // [E]
  std::string_view selection_bias = {};  // [E]
};

struct Family {
  std::string_view name;    // model_type in config.json
  std::string_view module;  // the block's path in the library; "{layer}" is the layer's number
  std::string_view stored;  // the block's path in the files' tensor names
  RouterTensors router;
  std::vector<ExpertTensor> experts;
  std::vector<ExpertTensor> shared = {};  // of width ModelConfig::shared_ff; used when that isn't 0
  // Fills in everything of `model` but family, layers and hidden, which are set before, and the
  // router's expert counts, which are set after.
  void (*configure)(const ConfigFields& fields, ModelConfig& model) = nullptr;
};

// "{layer}" and "{expert}" replaced by their numbers.
std::string block_path(std::string_view path, LayerId layer);
std::string expert_name(std::string_view name, ExpertId expert);

// UnknownFamily (file and field of config.json) when this build has none of that name.
Family find_family(std::string_view name, std::string_view config_file);

}  // namespace waybill
