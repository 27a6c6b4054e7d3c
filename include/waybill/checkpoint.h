// A Hugging Face checkpoint's MoE layers: configuration by family, weights as views of the mapped
// files. Nothing is guessed from shapes; every expert tensor is accounted for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/expert.h"
#include "waybill/ids.h"
#include "waybill/router.h"

namespace waybill {

// What config.json says about the MoE layers, in the field's terms.
struct ModelConfig {
  std::string family;               // "mixtral", "qwen3_moe", …
  std::int32_t layers = 0;          // dense ones included
  std::vector<LayerId> moe_layers;  // ascending
  std::int32_t hidden = 0;          // d
  std::int32_t ff = 0;              // routed expert intermediate width
  std::int32_t experts = 0;         // E
  std::int32_t topk = 0;            // k
  std::int32_t shared_ff = 0;       // 0: no shared expert
  RouterSpec router;
  Activation activation;
  bool scales_input = false;  // a gate multiplies its expert's input row, not the output (Llama 4)
};

// What the strict loader found. Listed tensors are those of MoE layers only.
struct Inventory {
  std::size_t expert_tensors = 0;    // used
  std::vector<std::string> missing;  // expected, not in the files
  std::vector<std::string> unused;   // in the files under a MoE block, not used
};

class Checkpoint {
 public:
  // Maps `directory`/config.json and model.safetensors or model.safetensors.index.json + shards.
  // Throws UnknownFamily, MissingField, InvalidValue, TopKExceedsExperts (config; file and field
  // named); MissingTensor (lists every missing tensor; unused ones in the note), ShapeMismatch,
  // UnknownDtype, DtypeMismatch (tensor named); FileUnreadable and the header codes of safetensors.
  static Checkpoint open(const std::string& directory);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::string& directory() const;
  const ModelConfig& config() const;
  const Inventory& inventory() const;

  // Views into the mapping; valid while this object lives.
  Router router(LayerId layer) const;
  ExpertWeights expert(LayerId layer, ExpertId expert) const;
  std::optional<ExpertWeights> shared_expert(LayerId layer) const;
  // Where the shared expert is gated: a router of one expert, whose gate multiplies its output.
  std::optional<Router> shared_expert_router(LayerId layer) const;

  // Module path under which Hugging Face's library names the block: "model.layers.1.mlp".
  std::string block_name(LayerId layer) const;
  // Tells the system that the layer's mapped pages won't be read soon, so they leave memory.
  void drop_pages(LayerId layer) const;

  struct State;

 private:
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Names of the families this build knows, sorted.
std::vector<std::string_view> family_names();

}  // namespace waybill
