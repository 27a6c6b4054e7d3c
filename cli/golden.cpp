#include "golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
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

void require_finite(const std::vector<float>& rows, std::int64_t width, const std::string& file,
                    const std::string& tensor) {
  const auto at = std::ranges::find_if_not(rows, [](float x) { return std::isfinite(x); });
  if (at == rows.end()) return;
  throw Error(Code::InvalidValue)
      .at("file", file)
      .at("tensor", tensor)
      .at("row", (at - rows.begin()) / width)
      .expected("finite values")
      .found(*at);
}

// The k best of each row of gates [T, E].
std::vector<std::int64_t> chosen_experts(const std::vector<float>& gates,
                                         const ModelConfig& model) {
  const auto experts = static_cast<std::size_t>(model.experts);
  std::vector<std::int64_t> chosen;
  std::vector<std::int64_t> order(experts);
  for (std::size_t begin = 0; begin < gates.size(); begin += experts) {
    std::iota(order.begin(), order.end(), 0);
    const auto end = order.begin() + model.topk;
    std::ranges::partial_sort(order, end, std::greater<>(), [&](std::int64_t expert) {
      return gates[begin + static_cast<std::size_t>(expert)];
    });
    chosen.insert(chosen.end(), order.begin(), end);
  }
  return chosen;
}

// Rows of all experts, one expert's after another's, added up: [E * T, d] → [T, d].
std::vector<float> sum_over_experts(const std::vector<float>& rows, std::int32_t experts) {
  std::vector<float> sum(rows.size() / static_cast<std::size_t>(experts), 0.0F);
  for (std::size_t i = 0; i < sum.size() * static_cast<std::size_t>(experts); ++i) {
    sum[i % sum.size()] += rows[i];
  }
  return sum;
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
  const std::string prefix = block + ".";
  return std::ranges::any_of(state_->file.tensors(), [&](const SafetensorsTensor& tensor) {
    return tensor.name.starts_with(prefix);
  });
}

std::set<std::string> Golden::blocks() const {
  constexpr std::string_view input = ".block_in";
  std::set<std::string> blocks;
  for (const SafetensorsTensor& tensor : state_->file.tensors()) {
    if (!tensor.name.ends_with(input)) continue;
    blocks.insert(tensor.name.substr(0, tensor.name.size() - input.size()));
  }
  return blocks;
}

RecordedBlock Golden::block(const std::string& name, const ModelConfig& model) const {
  const SafetensorsFile& file = state_->file;
  const auto rows = [&](const char* tensor, std::int64_t width) {
    return read_rows<float>(file, name + tensor, DType::f32, width);
  };
  RecordedBlock block;
  block.block_in = rows(".block_in", model.hidden);
  require_finite(block.block_in, model.hidden, file.path(), name + ".block_in");
  block.experts_out = rows(".experts_out", model.hidden);
  block.block_out = rows(".block_out", model.hidden);
  if (model.scales_input) {
    block.topk = chosen_experts(rows(".router_out0", model.experts), model);
    block.experts_out = sum_over_experts(block.experts_out, model.experts);
  } else {
    block.topk = read_rows<std::int64_t>(file, name + ".experts_in.arg1", DType::i64, model.topk);
  }
  const auto tokens = static_cast<std::size_t>(block.tokens(model.hidden));
  const auto require_tokens = [&](std::string_view tensor, std::size_t found, std::int64_t width) {
    if (found == tokens * static_cast<std::size_t>(width)) return;
    throw Error(Code::ShapeMismatch)
        .at("file", file.path())
        .at("tensor", fmt::format("{}.{}", name, tensor))
        .expected(fmt::format("{} rows, as block_in has", tokens))
        .found(found / static_cast<std::size_t>(width));
  };
  require_tokens(model.scales_input ? "router_out0" : "experts_in.arg1", block.topk.size(),
                 model.topk);
  require_tokens("experts_out", block.experts_out.size(), model.hidden);
  require_tokens("block_out", block.block_out.size(), model.hidden);
  return block;
}

}  // namespace waybill::cli
