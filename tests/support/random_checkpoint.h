// An OLMoE checkpoint of any size with random bf16 weights, on disk under a temporary directory.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/safetensors_writer.h"

namespace waybill::testing {

struct RandomShape {
  std::int64_t hidden, ff, experts, topk;
};

// Removes its files when it goes.
class RandomCheckpoint {
 public:
  RandomCheckpoint(const RandomShape& shape, std::uint64_t seed) {
    std::string name = (std::filesystem::temp_directory_path() / "waybill-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    directory_ = name;
    write_config(shape);
    write_weights(shape, seed);
  }
  RandomCheckpoint(const RandomCheckpoint&) = delete;
  RandomCheckpoint& operator=(const RandomCheckpoint&) = delete;
  ~RandomCheckpoint() { std::filesystem::remove_all(directory_); }

  const std::string& directory() const { return directory_; }

 private:
  void write_config(const RandomShape& shape) const {
    std::ofstream(directory_ + "/config.json")
        << R"({"model_type": "olmoe", "hidden_act": "silu", "num_hidden_layers": 1, "hidden_size": )"
        << shape.hidden << R"(, "intermediate_size": )" << shape.ff << R"(, "num_experts": )"
        << shape.experts << R"(, "num_experts_per_tok": )" << shape.topk
        << R"(, "norm_topk_prob": false})";
  }

  void write_weights(const RandomShape& shape, std::uint64_t seed) const {
    const std::string block = "model.layers.0.mlp.";
    std::vector<SafetensorsWriter::Tensor> tensors{
        {block + "gate.weight", DType::bf16, {shape.experts, shape.hidden}}};
    for (std::int64_t e = 0; e < shape.experts; ++e) {
      const std::string expert = block + "experts." + std::to_string(e) + ".";
      tensors.push_back({expert + "gate_proj.weight", DType::bf16, {shape.ff, shape.hidden}});
      tensors.push_back({expert + "up_proj.weight", DType::bf16, {shape.ff, shape.hidden}});
      tensors.push_back({expert + "down_proj.weight", DType::bf16, {shape.hidden, shape.ff}});
    }
    SafetensorsWriter writer(directory_ + "/model.safetensors", tensors);
    std::mt19937_64 rng(seed);
    std::vector<std::uint16_t> values;
    for (const auto& tensor : writer.tensors()) {
      values.resize(static_cast<std::size_t>(tensor.shape[0] * tensor.shape[1]));
      // Magnitudes in [2^-6, 2^-5), random sign: a plain width for hidden sizes of this order.
      for (std::uint16_t& v : values) v = static_cast<std::uint16_t>(0x3C80U | (rng() & 0x807FU));
      writer.write(std::as_bytes(std::span(values)));
    }
    writer.finish();
  }

  std::string directory_;
};

}  // namespace waybill::testing
