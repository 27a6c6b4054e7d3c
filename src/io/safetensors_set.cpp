#include "io/safetensors_set.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "io/json_document.h"
#include "io/safetensors_index.h"
#include "waybill/error.h"

namespace waybill {
namespace {

Error mismatch(std::string_view index, std::string_view tensor) {
  return Error(Code::ShardMismatch).at("file", index).at("tensor", tensor);
}

// Every tensor of a shard stands in the index under that shard; counts what was found.
std::size_t check_shard(const SafetensorsFile& file, std::string_view shard,
                        const ShardOfTensor& shards, const std::string& index, Faults& faults) {
  for (const SafetensorsTensor& tensor : file.tensors()) {
    const auto listed = shards.find(tensor.name);
    if (listed == shards.end()) {
      faults.report(mismatch(index, tensor.name).expected("no such tensor").found(shard));
    } else if (listed->second != shard) {
      faults.report(mismatch(index, tensor.name).expected(listed->second).found(shard));
    }
  }
  return file.tensors().size();
}

std::vector<SafetensorsFile> open_shards(const std::filesystem::path& directory,
                                         const std::string& index, Faults& faults) {
  const std::size_t before = faults.size();
  const ShardOfTensor shards = read_safetensors_index(JsonDocument::read(index), faults);
  std::map<std::string_view, const SafetensorsFile*> by_shard;
  for (const auto& [tensor, shard] : shards) by_shard.emplace(shard, nullptr);

  std::vector<SafetensorsFile> files;
  files.reserve(by_shard.size());
  std::size_t found = 0;
  for (auto& entry : by_shard) {
    faults.attempt([&] {
      files.push_back(SafetensorsFile::open((directory / entry.first).string(), faults));
      entry.second = &files.back();
    });
  }
  // A shard that can't be read holds nothing that could stand elsewhere.
  if (faults.size() > before) return files;
  for (const auto& [shard, file] : by_shard) {
    found += check_shard(*file, shard, shards, index, faults);
  }
  if (found == shards.size()) return files;
  for (const auto& [tensor, shard] : shards) {
    if (by_shard.at(shard)->find(tensor) == nullptr) {
      faults.report(mismatch(index, tensor).expected(shard).found("no such tensor there"));
    }
  }
  return files;
}

}  // namespace

SafetensorsSet SafetensorsSet::open(const std::string& directory) {
  Faults first;
  return open(directory, first);
}

SafetensorsSet SafetensorsSet::open(const std::string& directory, Faults& faults) {
  const std::filesystem::path folder(directory);
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  const std::filesystem::path single = folder / "model.safetensors";
  std::error_code ignored;  // what can't be looked at is reported by open()
  if (std::filesystem::exists(index, ignored) && !std::filesystem::exists(single, ignored)) {
    return open_index(index.string(), faults);
  }
  std::vector<SafetensorsFile> files;
  files.push_back(SafetensorsFile::open(single.string(), faults));
  return {directory, std::move(files)};
}

SafetensorsSet SafetensorsSet::open_index(const std::string& index, Faults& faults) {
  const std::filesystem::path directory = std::filesystem::path(index).parent_path();
  return {directory.string(), open_shards(directory, index, faults)};
}

SafetensorsSet::SafetensorsSet(std::string directory, std::vector<SafetensorsFile> files)
    : directory_(std::move(directory)), files_(std::move(files)) {
  for (const SafetensorsFile& file : files_) {
    for (const SafetensorsTensor& tensor : file.tensors()) by_name_.push_back({&tensor, &file});
  }
  std::sort(by_name_.begin(), by_name_.end(),
            [](const Member& a, const Member& b) { return a.name() < b.name(); });
}

const SafetensorsSet::Member* SafetensorsSet::find(std::string_view name) const {
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [](const Member& member, std::string_view wanted) { return member.name() < wanted; });
  return at != by_name_.end() && at->name() == name ? &*at : nullptr;
}

std::span<const SafetensorsSet::Member> SafetensorsSet::under(std::string_view prefix) const {
  const auto begin = std::lower_bound(
      by_name_.begin(), by_name_.end(), prefix,
      [](const Member& member, std::string_view wanted) { return member.name() < wanted; });
  const auto end = std::find_if(begin, by_name_.end(), [&](const Member& member) {
    return !member.name().starts_with(prefix);
  });
  return {begin, end};
}

}  // namespace waybill
