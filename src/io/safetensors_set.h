// The tensors of a checkpoint folder: one safetensors file, or shards with an index.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"

namespace waybill {

class SafetensorsSet {
 public:
  // Maps `directory`/model.safetensors, or without it every shard that
  // model.safetensors.index.json names. ShardMismatch (file, tensor) when index and shards don't
  // name the same tensors in the same places; InvalidValue when a shard's name is a path;
  // FileUnreadable for a missing shard; and the errors of the documents themselves.
  static SafetensorsSet open(const std::string& directory);
  static SafetensorsSet open(const std::string& directory, Faults& faults);
  // The shards beside an index, whatever its name. With faults that are kept, a set is only fit to
  // be thrown away.
  static SafetensorsSet open_index(const std::string& index, Faults& faults);

  struct Member {
    const SafetensorsTensor* tensor = nullptr;
    const SafetensorsFile* file = nullptr;
    std::string_view name() const { return tensor->name; }
  };

  const std::string& directory() const { return directory_; }
  std::size_t size() const { return by_name_.size(); }
  // Null when no file has a tensor of that name.
  const Member* find(std::string_view name) const;
  // All tensors whose names begin with `prefix`, in the order of names.
  std::span<const Member> under(std::string_view prefix) const;

 private:
  SafetensorsSet(std::string directory, std::vector<SafetensorsFile> files);
  std::string directory_;
  std::vector<SafetensorsFile> files_;
  std::vector<Member> by_name_;
};

}  // namespace waybill
