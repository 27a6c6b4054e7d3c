// What a family of checkpoints writes down: names and layout of the tensors of its MoE blocks, and
// what its config.json means and needs. A family is one file in families/ and one line in
// families/list.def. Source of the facts: each family's model and configuration classes in Hugging
// Face transformers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "waybill/checkpoint.h"

namespace waybill {

class ConfigFields;

// What an axis of a stored tensor runs over.
enum class Axis : std::uint8_t {
  one,            // a single element
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
  std::string_view weight = "gate.weight";  // [E, d]
  std::string_view bias = {};               // [E]
  std::string_view selection_bias = {};     // [E], or as follows
  std::vector<Axis> selection_bias_axes = {Axis::expert};
};

// Where most families keep a block; "{layer}" is the layer's number.
inline constexpr std::string_view mlp_path = "model.layers.{layer}.mlp";

// How files hold a block.
struct BlockLayout {
  std::string_view path = mlp_path;  // of the block in tensor names
  RouterTensors router = {};
  std::vector<ExpertTensor> experts = {};
  std::vector<ExpertTensor> shared = {};  // of width ModelConfig::shared_ff; used when that isn't 0
  std::string_view shared_router = {};    // [1, d]; empty: the shared expert isn't gated
};

// The fields of config.json that hold E, k and the experts' width; of several names for one, the
// first is what a new checkpoint states.
struct SizeFields {
  std::vector<std::string_view> experts = {"num_experts", "num_local_experts"};
  std::vector<std::string_view> topk = {"num_experts_per_tok"};
  std::string_view ff = "intermediate_size";
};

// A field that a new checkpoint's config.json states: the experts' width, or a value as it stands.
struct ExpertWidth {};
struct ConfigField {
  std::string_view name;
  std::variant<ExpertWidth, std::int32_t, bool, std::string_view> value;
};

struct Family {
  std::string_view name;               // model_type in config.json
  std::string_view module = mlp_path;  // the block's path in the library
  // The ways in which the family's checkpoints are stored, that of the published ones first.
  std::vector<BlockLayout> layouts;
  SizeFields sizes = {};
  // Changes what isn't so in this family: `model` has its sizes, experts in every layer, no shared
  // expert, SwiGLU, and a softmax router whose expert counts are set after.
  void (*configure)(const ConfigFields& fields, ModelConfig& model) = nullptr;
  // What a model of the family with experts in every layer states beside model_type, hidden_act,
  // hidden_size, num_hidden_layers and the sizes.
  std::vector<ConfigField> config = {};
};

// "{layer}" and "{expert}" replaced by their numbers.
std::string block_path(std::string_view path, LayerId layer);
std::string expert_name(std::string_view name, ExpertId expert);

// UnknownFamily (file and field of config.json) when this build has none of that name.
Family find_family(std::string_view name, std::string_view config_file);

}  // namespace waybill
