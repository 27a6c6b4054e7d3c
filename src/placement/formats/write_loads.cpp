#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "io/npz.h"
#include "io/safetensors_writer.h"
#include "io/text_file.h"
#include "waybill/error.h"
#include "waybill/load_file.h"

namespace waybill {
namespace {

// Whole numbers without a point, others so that they read back to the same value.
std::string number_text(double value) {
  constexpr double exact = 9007199254740992;  // 2^53
  if (value == std::floor(value) && std::abs(value) < exact) return fmt::format("{:.0f}", value);
  return fmt::format("{}", value);
}

std::string numbers_text(std::span<const double> values) {
  std::string text = "[";
  for (double value : values) {
    if (text.size() > 1) text += ',';
    text += number_text(value);
  }
  return text + "]";
}

std::string label_text(std::string_view label) {
  return nlohmann::json(label).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string layer_ids_text(std::span<const LayerId> layers) {
  std::vector<std::int32_t> ids;
  for (LayerId layer : layers) ids.push_back(layer.value);
  return fmt::format("[{}]", fmt::join(ids, ","));
}

const LoadMatrix& first_load(const LoadSeries& series) { return series.windows.front().load; }

// [layers][experts], or [layers][sources][experts].
std::string load_table(const LoadMatrix& load) {
  std::string text = "[";
  for (std::size_t i = 0; i < load.layers().size(); ++i) {
    text += i == 0 ? "\n   " : ",\n   ";
    const std::span<const double> rows = load.by_source(i);
    if (load.sources() == 1) {
      text += numbers_text(rows);
      continue;
    }
    text += '[';
    const auto experts = static_cast<std::size_t>(load.experts());
    for (std::size_t at = 0; at < rows.size(); at += experts) {
      if (at > 0) text += ',';
      text += numbers_text(rows.subspan(at, experts));
    }
    text += ']';
  }
  return text + "\n  ]";
}

std::string step_text(std::string_view key, const std::optional<std::int64_t>& step) {
  return step ? fmt::format("\"{}\": {}, ", key, *step) : std::string();
}

std::string waybill_loads_text(const LoadSeries& series) {
  const LoadMatrix& first = first_load(series);
  const LoadProvenance& provenance = first.provenance();
  std::string text = fmt::format(
      "{{\n \"schema\": \"waybill-loads-1\",\n \"unit\": \"{}\",\n \"phase\": \"{}\",\n"
      " \"aggregation\": \"{}\",\n \"window\": {},\n \"router\": {},\n \"checkpoint\": {},\n"
      " \"topology\": {},\n \"placement\": {},\n \"counted\": {},\n \"ranks\": {},\n",
      name(provenance.unit), name(provenance.phase), name(provenance.aggregation),
      label_text(provenance.window), label_text(provenance.router),
      label_text(provenance.checkpoint.value), label_text(provenance.topology),
      label_text(provenance.placement.value), label_text(provenance.counted), provenance.ranks);
  if (series.topk) text += fmt::format(" \"experts_per_token\": {},\n", *series.topk);
  text += fmt::format(
      " \"experts\": {},\n \"sources\": {},\n \"layers\": {},\n \"dense_layers\": {},\n"
      " \"windows\": [",
      first.experts(), first.sources(), layer_ids_text(first.layers()),
      layer_ids_text(series.dense_layers));
  for (const LoadWindow& window : series.windows) {
    const LoadProvenance& own = window.load.provenance();
    text += text.back() == '[' ? "\n  {" : ",\n  {";
    text += step_text("first_step", own.first_step) + step_text("last_step", own.last_step);
    if (own.phase != provenance.phase) text += fmt::format("\"phase\": \"{}\", ", name(own.phase));
    if (window.idle) text += "\"idle\": true, ";
    text += "\"load\": " + load_table(window.load) + "}";
  }
  return text + "\n ]\n}\n";
}

// {"logical_count": [W][L][E]}, L over all layers.
std::string sglang_loads_text(const LoadSeries& series) {
  const LoadMatrix& first = first_load(series);
  std::size_t rows = 0;
  for (LayerId layer : first.layers()) rows = std::max(rows, layer.index() + 1);
  for (LayerId layer : series.dense_layers) rows = std::max(rows, layer.index() + 1);
  const std::vector<double> none(static_cast<std::size_t>(first.experts()), 0);
  std::string text = "{\"logical_count\": [";
  for (const LoadWindow& window : series.windows) {
    std::vector<std::vector<double>> table(rows, none);
    for (std::size_t i = 0; i < first.layers().size(); ++i) {
      table[first.layers()[i].index()] = window.load.total(i);
    }
    text += text.back() == '[' ? "\n [" : ",\n [";
    for (const auto& row : table) {
      text += text.back() == '[' ? "\n  " : ",\n  ";
      text += numbers_text(row);
    }
    text += "\n ]";
  }
  return text + "\n]}\n";
}

// {"weight": [L][E]}, which has no windows: what ran is added up.
std::string eplb_loads_text(const LoadSeries& series) {
  const LoadMatrix& first = first_load(series);
  std::string text = "{\"weight\": [";
  for (std::size_t i = 0; i < first.layers().size(); ++i) {
    std::vector<double> sum(static_cast<std::size_t>(first.experts()), 0);
    for (const LoadWindow& window : series.windows) {
      const std::vector<double> own = window.load.total(i);
      for (std::size_t e = 0; e < sum.size() && !window.idle; ++e) sum[e] += own[e];
    }
    text += i == 0 ? "\n  " : ",\n  ";
    text += numbers_text(sum);
  }
  return text + fmt::format("\n ],\n \"layers\": {}\n}}\n", layer_ids_text(first.layers()));
}

std::int64_t whole(double value, std::int64_t most, LayerId layer, FileFormat format) {
  if (value == std::floor(value) && value <= static_cast<double>(most)) {
    return static_cast<std::int64_t>(value);
  }
  throw Error(Code::InvalidValue)
      .at("format", format)
      .at("layer", layer)
      .expected(fmt::format("whole rows, at most {}", most))
      .found(value);
}

template <class Integer>
std::string little_endian(std::span<const double> values, LayerId layer, FileFormat format) {
  std::string bytes;
  for (double value : values) {
    const auto number =
        static_cast<Integer>(whole(value, std::numeric_limits<Integer>::max() / 2, layer, format));
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  return bytes;
}

// The folder of one rank whose counts are the sums.
void write_tensorrt_llm(const std::string& folder, const LoadSeries& series) {
  if (!series.topk) {
    throw Error(Code::MissingField)
        .at("format", FileFormat::tensorrt_llm)
        .at("field", "num_experts_per_token")
        .expected("the experts that a token chooses")
        .note("--topk K states it");
  }
  const LoadMatrix& first = first_load(series);
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw Error(Code::FileUnwritable).at("file", folder).found(failure.message());
  std::vector<SafetensorsWriter::Tensor> tensors;
  std::map<std::string, std::string> bytes;
  for (std::size_t w = 0; w < series.windows.size(); ++w) {
    const LoadMatrix& load = series.windows[w].load;
    const auto iteration = load.provenance().first_step.value_or(static_cast<std::int64_t>(w));
    for (std::size_t i = 0; i < load.layers().size(); ++i) {
      const std::string key = fmt::format("{}_{}", iteration, load.layers()[i].value);
      tensors.push_back({key, DType::i64, {first.experts()}});
      bytes[key] =
          little_endian<std::int64_t>(load.total(i), load.layers()[i], FileFormat::tensorrt_llm);
    }
  }
  SafetensorsWriter writer(folder + "/rank0.safetensors", tensors);
  for (const auto& tensor : writer.tensors()) {
    writer.write(std::as_bytes(std::span(bytes[tensor.name])));
  }
  writer.finish();
  write_text_file(folder + "/meta_info.json",
                  fmt::format("{{\"num_experts\": {}, \"num_experts_per_token\": {}}}\n",
                              first.experts(), *series.topk));
}

NpyArray int_array(std::string name, std::vector<std::int64_t> shape,
                   std::span<const std::int32_t> values) {
  NpyArray array{std::move(name), DType::i32, std::move(shape), {}};
  array.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return array;
}

// One rank's dump with the sums of all.
std::string megatron_bytes(const LoadSeries& series) {
  const LoadMatrix& first = first_load(series);
  const std::int32_t zero = 0, one = 1, experts = first.experts();
  std::vector<std::int32_t> layers;
  for (LayerId layer : first.layers()) layers.push_back(layer.value);
  NpyArray loads{
      "loads", DType::i32, {std::ssize(layers), std::ssize(series.windows), experts}, {}};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const LoadWindow& window : series.windows) {
      loads.bytes += little_endian<std::int32_t>(window.load.total(i), first.layers()[i],
                                                 FileFormat::megatron);
    }
  }
  const std::vector<NpyArray> arrays{
      std::move(loads), int_array("layer_numbers", {std::ssize(layers)}, layers),
      int_array("ep_rank", {}, std::span(&zero, 1)), int_array("ep_size", {}, std::span(&one, 1)),
      int_array("num_global_physical_experts", {}, std::span(&experts, 1))};
  return npz_bytes(arrays);
}

}  // namespace

void write_loads(const std::string& path, FileFormat format, const LoadSeries& series) {
  switch (format) {
    case FileFormat::waybill: return write_text_file(path, waybill_loads_text(series));
    case FileFormat::sglang: return write_text_file(path, sglang_loads_text(series));
    case FileFormat::tensorrt_llm: return write_tensorrt_llm(path, series);
    case FileFormat::megatron: return write_text_file(path, megatron_bytes(series));
    case FileFormat::eplb: return write_text_file(path, eplb_loads_text(series));
    case FileFormat::vllm:
    case FileFormat::ascend: break;
  }
  throw Error(Code::OptionNotBuilt)
      .at("format", format)
      .expected("waybill, sglang, tensorrt_llm, megatron or eplb for loads");
}

}  // namespace waybill
