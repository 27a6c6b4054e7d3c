// A shipped checkpoint in memory, to be damaged on purpose and written elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace waybill::testing {

struct StoredTensor {
  DType dtype = DType::bf16;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

struct EditableCheckpoint {
  nlohmann::json config;
  std::map<std::string, StoredTensor> tensors;

  static EditableCheckpoint shipped(const std::string& family) {
    const std::string folder = std::string(WAYBILL_TEST_DATA) + "/checkpoints/" + family;
    EditableCheckpoint checkpoint;
    checkpoint.config = nlohmann::json::parse(std::ifstream(folder + "/config.json"));
    const SafetensorsFile file = SafetensorsFile::open(folder + "/model.safetensors");
    for (const SafetensorsTensor& tensor : file.tensors()) {
      checkpoint.tensors[tensor.name] = {
          tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}};
    }
    return checkpoint;
  }

  void rename(const std::string& from, const std::string& to) {
    tensors[to] = std::move(tensors.at(from));
    tensors.erase(from);
  }
  // Zeros of another dtype or shape in the tensor's place.
  void replace(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
    std::size_t bytes = size_of(dtype);
    for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
    tensors.at(name) = {dtype, std::move(shape), std::vector<std::byte>(bytes)};
  }

  void write_config(const std::string& folder) const {
    std::ofstream(folder + "/config.json") << config;
  }
  void write(const std::string& folder) const {
    write_config(folder);
    write_tensors(folder + "/model.safetensors", tensors);
  }
  // Every `shards`-th tensor into the same shard.
  void write_sharded(const std::string& folder, std::size_t shards) const {
    write_config(folder);
    std::vector<std::map<std::string, StoredTensor>> parts(shards);
    nlohmann::json index;
    std::size_t next = 0;
    for (const auto& [name, tensor] : tensors) {
      const std::size_t part = next++ % shards;
      parts[part][name] = tensor;
      index["weight_map"][name] = shard_name(part);
    }
    for (std::size_t part = 0; part < shards; ++part) {
      write_tensors(folder + "/" + shard_name(part), parts[part]);
    }
    std::ofstream(folder + "/model.safetensors.index.json") << index;
  }

 private:
  static std::string shard_name(std::size_t part) {
    return "model-" + std::to_string(part) + ".safetensors";
  }
  static void write_tensors(const std::string& path,
                            const std::map<std::string, StoredTensor>& tensors) {
    std::vector<SafetensorsWriter::Tensor> declared;
    for (const auto& [name, tensor] : tensors) {
      declared.push_back({name, tensor.dtype, tensor.shape});
    }
    SafetensorsWriter writer(path, declared);
    for (const auto& tensor : writer.tensors()) writer.write(tensors.at(tensor.name).bytes);
    writer.finish();
  }
};

}  // namespace waybill::testing
