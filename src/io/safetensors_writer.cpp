#include "io/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/safetensors.h"
#include "waybill/error.h"

namespace waybill {
namespace {

constexpr std::string_view metadata_key = "__metadata__";
constexpr std::size_t header_alignment = 8;

Error unwritable(const std::string& path) {
  return Error(Code::FileUnwritable).at("file", path).found(std::strerror(errno));
}

bool precedes(const SafetensorsWriter::Tensor& a, const SafetensorsWriter::Tensor& b) {
  const std::size_t a_width = size_of(a.dtype), b_width = size_of(b.dtype);
  return a_width != b_width ? a_width > b_width : a.name < b.name;
}

std::uint64_t byte_size(const SafetensorsWriter::Tensor& tensor) {
  std::uint64_t bytes = size_of(tensor.dtype);
  for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

// The JSON header, padded so that the data section begins aligned.
std::string header_text(std::span<const SafetensorsWriter::Tensor> tensors,
                        const std::map<std::string, std::string>& metadata) {
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[metadata_key] = metadata;
  std::uint64_t begin = 0;
  for (const auto& tensor : tensors) {
    const std::uint64_t end = begin + byte_size(tensor);
    header[tensor.name] = {{"dtype", safetensors_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + header_alignment - 1) / header_alignment * header_alignment, ' ');
  return text;
}

void refuse_duplicates(const std::string& path,
                       std::span<const SafetensorsWriter::Tensor> tensors) {
  std::vector<std::string_view> names{metadata_key};
  for (const auto& tensor : tensors) names.emplace_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    throw Error(Code::DuplicateKey).at("file", path).at("tensor", *twice);
  }
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<Tensor> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(std::move(path)), tensors_(std::move(tensors)), file_(nullptr, {path_ + ".partial"}) {
  refuse_duplicates(path_, tensors_);
  std::sort(tensors_.begin(), tensors_.end(), precedes);
  file_.reset(std::fopen(file_.get_deleter().partial.c_str(), "wbe"));
  if (file_ == nullptr) throw unwritable(path_);

  const std::string header = header_text(tensors_, metadata);
  std::array<std::byte, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<std::byte>(header.size() >> (8 * i));
  }
  remaining_ = length.size() + header.size();
  for (const Tensor& tensor : tensors_) remaining_ += byte_size(tensor);
  write(length);
  write(std::as_bytes(std::span(header)));
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  assert(bytes.size() <= remaining_);
  if (bytes.empty()) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) {
    throw unwritable(path_);
  }
  remaining_ -= bytes.size();
}

void SafetensorsWriter::finish() {
  assert(remaining_ == 0);
  const std::string& partial = file_.get_deleter().partial;
  if (std::fflush(file_.get()) != 0 || std::rename(partial.c_str(), path_.c_str()) != 0) {
    throw unwritable(path_);
  }
  file_.reset();
}

}  // namespace waybill
