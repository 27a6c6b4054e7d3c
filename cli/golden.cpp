#include "golden.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "io/safetensors.h"
#include "waybill/error.h"
#include "waybill/tensor.h"

namespace waybill::cli {
namespace {

std::string recording_of(const std::string& path) {
  const std::filesystem::path given(path);
  std::error_code ignored;
  if (std::filesystem::is_directory(given, ignored)) return (given / "golden.safetensors").string();
  if (given.extension() == ".json") {
    return std::filesystem::path(given).replace_extension(".safetensors").string();
  }
  return path;
}

// Rows of a tensor [T, width] or [1, T, width] of one element type.
template <class T>
std::vector<T> read_rows(const SafetensorsFile& file, const std::string& name, DType dtype,
                         std::int64_t width) {
  const SafetensorsTensor* tensor = file.find(name);
  if (tensor == nullptr) {
    throw Error(Code::MissingTensor).at("file", file.path()).at("tensor", name);
  }
  if (tensor->dtype != dtype) {
    throw Error(Code::DtypeMismatch)
        .at("file", file.path())
        .at("tensor", name)
        .expected(dtype)
        .found(tensor->dtype);
  }
  const std::vector<std::int64_t>& shape = tensor->shape;
  const bool rows =
      (shape.size() == 2 || (shape.size() == 3 && shape[0] == 1)) && shape.back() == width;
  if (!rows) {
    throw Error(Code::ShapeMismatch)
        .at("file", file.path())
        .at("tensor", name)
        .expected(fmt::format("[1, T, {}]", width))
        .found(shape_text(shape));
  }
  std::vector<T> values(tensor->bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

}  // namespace

struct Golden::State {
  SafetensorsFile file;
};

Golden Golden::open(const std::string& path) {
  return Golden(std::make_unique<State>(State{SafetensorsFile::open(recording_of(path))}));
}

Golden::Golden(std::unique_ptr<State> state) : state_(std::move(state)) {}
Golden::Golden(Golden&&) noexcept = default;
Golden& Golden::operator=(Golden&&) noexcept = default;
Golden::~Golden() = default;

const std::string& Golden::file() const { return state_->file.path(); }

bool Golden::has(const std::string& block) const {
  return state_->file.find(block + ".block_in") != nullptr;
}

RecordedBlock Golden::block(const std::string& name, std::int64_t hidden, std::int64_t topk) const {
  const SafetensorsFile& file = state_->file;
  RecordedBlock block;
  block.block_in = read_rows<float>(file, name + ".block_in", DType::f32, hidden);
  block.topk = read_rows<std::int64_t>(file, name + ".experts_in.arg1", DType::i64, topk);
  block.experts_out = read_rows<float>(file, name + ".experts_out", DType::f32, hidden);
  block.block_out = read_rows<float>(file, name + ".block_out", DType::f32, hidden);
  const auto tokens = static_cast<std::size_t>(block.tokens(hidden));
  const auto require_tokens = [&](std::string_view tensor, std::size_t found, std::int64_t width) {
    if (found == tokens * static_cast<std::size_t>(width)) return;
    throw Error(Code::ShapeMismatch)
        .at("file", file.path())
        .at("tensor", fmt::format("{}.{}", name, tensor))
        .expected(fmt::format("{} rows, as block_in has", tokens))
        .found(found / static_cast<std::size_t>(width));
  };
  require_tokens("experts_in.arg1", block.topk.size(), topk);
  require_tokens("experts_out", block.experts_out.size(), hidden);
  require_tokens("block_out", block.block_out.size(), hidden);
  return block;
}

}  // namespace waybill::cli
