// A checkpoint with random damage to its documents: it opens or it throws an Error, nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "property/property.h"
#include "support/temporary_folder.h"
#include "waybill/checkpoint.h"
#include "waybill/error.h"

namespace waybill {
namespace {

std::string shipped(const std::string& family, const char* name) {
  const std::string path = std::string(WAYBILL_TEST_DATA) + "/checkpoints/" + family + "/" + name;
  std::string bytes(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

// Replaces, removes or doubles a few bytes among the first `end`.
void damage(std::string& text, std::size_t end) {
  const int edits = property::draw(1, 4);
  for (int i = 0; i < edits; ++i) {
    const auto at = property::draw<std::size_t>(0, std::min(end, text.size()));
    const auto length = property::draw<std::size_t>(1, 12);
    switch (property::draw(0, 4)) {
      case 0: text[at] = property::draw_char(); break;
      case 1: text[at] = property::draw_from(std::string("0123456789-\"{}[],:.en")); break;
      case 2: text.erase(at, length); break;
      case 3: text.insert(at, text.substr(at, length)); break;
    }
  }
}

void open(const testing::TemporaryFolder& folder) {
  try {
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    const LayerId layer = checkpoint.config().moe_layers.front();
    // The last bytes of the last expert are inside the mapping.
    const ExpertWeights expert =
        checkpoint.expert(layer, ExpertId(checkpoint.config().experts - 1));
    const TensorView& down = expert.down;
    const auto* elements = down.as<std::uint16_t>();
    const volatile std::uint16_t touched =
        elements[(down.shape[0] - 1) * down.strides[0] + (down.shape[1] - 1) * down.strides[1]];
    static_cast<void>(touched);
  } catch (const Error& error) {
    HOLDS(!error.coordinate("file").empty());
  }
}

PROPERTY(CheckpointCorruption, OfTheConfigIsAnErrorAtMost) {
  const std::string family(property::draw_from(family_names()));
  std::string config = shipped(family, "config.json");
  damage(config, config.size());
  const testing::TemporaryFolder folder;
  folder.write("config.json", config);
  folder.write("model.safetensors", shipped(family, "model.safetensors"));
  open(folder);
}

PROPERTY(CheckpointCorruption, OfTheTensorHeaderIsAnErrorAtMost) {
  std::string tensors = shipped("gpt_oss", "model.safetensors");
  damage(tensors, 3000);
  const testing::TemporaryFolder folder;
  folder.write("config.json", shipped("gpt_oss", "config.json"));
  folder.write("model.safetensors", tensors);
  open(folder);
}

}  // namespace
}  // namespace waybill
