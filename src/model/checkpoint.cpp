#include "waybill/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "io/safetensors_set.h"
#include "model/checkpoint_checks.h"
#include "model/load_layers.h"
#include "model/model_config.h"
#include "waybill/error.h"

namespace waybill {

struct Checkpoint::State {
  FamilyConfig config;
  SafetensorsSet files;
  LoadedLayers loaded;

  const LoadedLayer& layer(LayerId id) const {
    const auto& ids = config.model.moe_layers;
    const auto at = std::lower_bound(ids.begin(), ids.end(), id);
    if (at == ids.end() || *at != id) {
      throw Error(Code::InvalidValue)
          .at("file", files.directory())
          .at("layer", id)
          .expected("a layer with experts")
          .found(id.value >= 0 && id.value < config.model.layers ? "a dense layer"
                                                                 : "no such layer");
    }
    return loaded.layers[static_cast<std::size_t>(at - ids.begin())];
  }
};

namespace {

// Null when faults are kept.
std::unique_ptr<Checkpoint::State> open_state(const std::string& directory, Faults& faults) {
  const std::size_t before = faults.size();
  std::optional<FamilyConfig> config;
  std::optional<SafetensorsSet> files;
  faults.attempt([&] {
    const auto path = std::filesystem::path(directory) / "config.json";
    config = read_model_config(JsonDocument::read(path.string()), faults);
  });
  faults.attempt([&] { files = SafetensorsSet::open(directory, faults); });
  if (faults.size() > before) return nullptr;
  LoadedLayers loaded = load_layers(config->family, config->model, *files, faults);
  if (faults.size() > before) return nullptr;
  return std::make_unique<Checkpoint::State>(
      Checkpoint::State{*std::move(config), *std::move(files), std::move(loaded)});
}

}  // namespace

Checkpoint Checkpoint::open(const std::string& directory) {
  Faults first;
  return Checkpoint(open_state(directory, first));
}

std::optional<ModelConfig> check_checkpoint(const std::string& directory, Faults& faults) {
  const auto state = open_state(directory, faults);
  return state == nullptr ? std::nullopt : std::optional(state->config.model);
}

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const std::string& Checkpoint::directory() const { return state_->files.directory(); }
const ModelConfig& Checkpoint::config() const { return state_->config.model; }
const Inventory& Checkpoint::inventory() const { return state_->loaded.inventory; }

Router Checkpoint::router(LayerId layer) const { return state_->layer(layer).router; }

ExpertWeights Checkpoint::expert(LayerId layer, ExpertId expert) const {
  const LoadedLayer& moe = state_->layer(layer);
  if (expert.value < 0 || expert.index() >= moe.experts.size()) {
    throw Error(Code::ExpertIdOutOfRange)
        .at("file", state_->files.directory())
        .at("layer", layer)
        .expected(fmt::format("an expert in [0, {})", moe.experts.size()))
        .found(expert);
  }
  return moe.experts[expert.index()];
}

std::optional<ExpertWeights> Checkpoint::shared_expert(LayerId layer) const {
  return state_->layer(layer).shared;
}

std::optional<Router> Checkpoint::shared_expert_router(LayerId layer) const {
  return state_->layer(layer).shared_router;
}

std::string Checkpoint::block_name(LayerId layer) const {
  return block_path(state_->config.family.module, layer);
}

void Checkpoint::drop_pages(LayerId layer) const {
  const std::string block = block_path(state_->loaded.path, layer) + ".";
  for (const SafetensorsSet::Member& member : state_->files.under(block)) {
    member.file->drop_pages(*member.tensor);
  }
}

}  // namespace waybill
