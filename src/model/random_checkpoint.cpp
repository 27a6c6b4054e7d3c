#include "model/random_checkpoint.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <unordered_map>
#include <variant>
#include <vector>

#include "io/safetensors_writer.h"
#include "model/block_tensors.h"
#include "model/model_config.h"
#include "model/random_weights.h"
#include "waybill/error.h"

namespace waybill {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

Json config_document(const RandomCheckpoint& checkpoint, const Family& family) {
  Json config{{"model_type", checkpoint.family},
              {"hidden_act", "silu"},
              {"hidden_size", checkpoint.hidden},
              {"num_hidden_layers", checkpoint.layers},
              {"dtype", "bfloat16"}};
  const auto state = [&](std::string_view field, const auto& value) {
    config[std::string(field)] = value;
  };
  state(family.sizes.experts.front(), checkpoint.experts);
  state(family.sizes.topk.front(), checkpoint.topk);
  state(family.sizes.ff, checkpoint.ff);
  for (const ConfigField& field : family.config) {
    std::visit(
        [&](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, ExpertWidth>) {
            state(field.name, checkpoint.ff);
          } else {
            state(field.name, value);
          }
        },
        field.value);
  }
  return config;
}

std::uint64_t bytes_of(const BlockTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::uint64_t{2},
                         [](std::uint64_t bytes, std::int64_t extent) {
                           return bytes * static_cast<std::uint64_t>(extent);
                         });
}

Error unwritable(const fs::path& path) {
  return Error(Code::FileUnwritable).at("file", path.string());
}

void write_document(const fs::path& path, const Json& document) {
  std::ofstream file(path);
  file << document.dump(2) << '\n';
  file.close();
  if (!file) throw unwritable(path);
}

void require_room(const fs::path& directory, std::span<const BlockTensor> tensors) {
  std::error_code error;
  const std::uint64_t available = fs::space(directory, error).available;
  if (error) throw unwritable(directory).found(error.message());
  std::uint64_t room = available;
  for (const BlockTensor& tensor : tensors) {
    const std::uint64_t bytes = bytes_of(tensor);
    if (bytes > room) {
      throw unwritable(directory)
          .expected("room for all weights")
          .found(fmt::format("{} bytes", available));
    }
    room -= bytes;
  }
}

void make_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw unwritable(directory).found(error.message());
  if (!fs::is_empty(directory, error) || error) {
    throw unwritable(directory).expected("a new or empty folder").found("a folder with files");
  }
}

void write_weights(const fs::path& path, std::span<const BlockTensor> tensors, std::uint64_t seed) {
  std::vector<SafetensorsWriter::Tensor> declared;
  std::unordered_map<std::string_view, const BlockTensor*> by_name;
  for (const BlockTensor& tensor : tensors) {
    declared.push_back({tensor.name, DType::bf16, tensor.shape});
    by_name[tensor.name] = &tensor;
  }
  SafetensorsWriter writer(path.string(), declared, {{"format", "pt"}});
  for (const auto& tensor : writer.tensors()) {
    const BlockTensor& described = *by_name.at(tensor.name);
    RandomWeights weights(seed, tensor.name, described.inputs);
    for (std::uint64_t left = bytes_of(described); left > 0;) {
      const std::span<const std::byte> piece = weights.next(left);
      writer.write(piece);
      left -= piece.size();
    }
  }
  writer.finish();
}

std::string shard_name(std::int32_t shard, std::int32_t shards) {
  return shards == 1 ? "model.safetensors"
                     : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

}  // namespace

WrittenCheckpoint write_random_checkpoint(const RandomCheckpoint& checkpoint,
                                          const std::string& directory,
                                          const std::function<void(std::int32_t)>& begin_file) {
  const fs::path folder(directory);
  const std::string config_path = (folder / "config.json").string();
  const Json config = config_document(checkpoint, find_family(checkpoint.family, config_path));
  const auto [family, model] = read_model_config(JsonDocument::parse(config.dump(), config_path));
  const std::vector<BlockTensor> tensors = block_tensors(family.layouts.front(), model);
  const auto count = std::ssize(tensors);
  if (checkpoint.shards < 1 || checkpoint.shards > count) {
    throw Error(Code::InvalidValue)
        .at("field", "shards")
        .expected(fmt::format("between 1 and the {} tensors", count))
        .found(checkpoint.shards);
  }
  make_directory(folder);
  require_room(folder, tensors);

  WrittenCheckpoint written{.tensors = tensors.size()};
  Json weight_map = Json::object();
  for (std::int32_t shard = 0; shard < checkpoint.shards; ++shard) {
    if (begin_file) begin_file(shard + 1);
    const std::string name = shard_name(shard, checkpoint.shards);
    const auto first = static_cast<std::size_t>(count * shard / checkpoint.shards);
    const auto last = static_cast<std::size_t>(count * (shard + 1) / checkpoint.shards);
    const auto members = std::span(tensors).subspan(first, last - first);
    write_weights(folder / name, members, checkpoint.seed);
    for (const BlockTensor& tensor : members) {
      weight_map[tensor.name] = name;
      written.tensor_bytes += bytes_of(tensor);
    }
    ++written.files;
  }
  if (checkpoint.shards > 1) {
    write_document(
        folder / "model.safetensors.index.json",
        {{"metadata", {{"total_size", written.tensor_bytes}}}, {"weight_map", weight_map}});
    ++written.files;
  }
  write_document(config_path, config);
  ++written.files;
  return written;
}

}  // namespace waybill
