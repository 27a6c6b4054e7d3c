#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "io/safetensors.h"
#include "placement/formats/json_source.h"
#include "placement/formats/loads.h"

namespace waybill {
namespace {

namespace fs = std::filesystem;

// (iteration, layer) of a key "12_3".
using CountKey = std::pair<std::int64_t, std::int32_t>;

std::optional<CountKey> count_key(std::string_view text) {
  CountKey key;
  const char* const end = text.data() + text.size();
  const auto [middle, failure] = std::from_chars(text.data(), end, key.first);
  if (failure != std::errc{} || middle == end || *middle != '_') return std::nullopt;
  const auto [rest, fault] = std::from_chars(middle + 1, end, key.second);
  if (fault != std::errc{} || rest != end || key.first < 0 || key.second < 0) return std::nullopt;
  return key;
}

template <class T>
void add_counts(std::span<const std::byte> bytes, std::vector<double>& sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    sum[i] += static_cast<double>(value);
  }
}

class RankStatistics {
 public:
  explicit RankStatistics(std::int32_t experts) : experts_(experts) {}

  // Every rank counts the same iterations and layers.
  void add(const SafetensorsFile& file) {
    std::set<CountKey> keys;
    for (const SafetensorsTensor& tensor : file.tensors()) {
      const auto key = count_key(tensor.name);
      if (!key) {
        throw Error(Code::InvalidValue)
            .at("file", file.path())
            .at("tensor", tensor.name)
            .expected("<iteration>_<layer>");
      }
      if (tensor.shape != std::vector<std::int64_t>{experts_}) {
        throw Error(Code::ShapeMismatch)
            .at("file", file.path())
            .at("tensor", tensor.name)
            .expected(fmt::format("[{}]", experts_))
            .found(fmt::format("[{}]", fmt::join(tensor.shape, ", ")));
      }
      keys.insert(*key);
      add(file, tensor, sums_[*key]);
    }
    if (first_.empty()) first_ = keys;
    std::vector<CountKey> differing;
    std::ranges::set_symmetric_difference(keys, first_, std::back_inserter(differing));
    if (!differing.empty()) {
      throw Error(Code::MissingTensor)
          .at("file", file.path())
          .at("tensor", fmt::format("{}_{}", differing[0].first, differing[0].second))
          .expected("the same iterations and layers in the files of all ranks");
    }
  }

  void finish(const std::string& folder, LoadRows& rows) const {
    std::set<std::int32_t> layers;
    std::set<std::int64_t> iterations;
    for (const auto& [key, sum] : sums_) {
      iterations.insert(key.first);
      layers.insert(key.second);
    }
    rows.rows = static_cast<std::int32_t>(layers.size());
    rows.experts = experts_;
    for (std::int32_t layer : layers) rows.layers.emplace_back(layer);
    for (std::int64_t iteration : iterations) {
      RowWindow window;
      window.first_step = window.last_step = iteration;
      for (std::int32_t layer : layers) {
        const auto sum = sums_.find({iteration, layer});
        if (sum == sums_.end()) {
          throw Error(Code::MissingTensor)
              .at("file", folder)
              .at("tensor", fmt::format("{}_{}", iteration, layer))
              .expected("every layer in every iteration");
        }
        window.load.insert(window.load.end(), sum->second.begin(), sum->second.end());
      }
      rows.windows.push_back(std::move(window));
    }
  }

 private:
  void add(const SafetensorsFile& file, const SafetensorsTensor& tensor,
           std::vector<double>& sum) const {
    sum.resize(static_cast<std::size_t>(experts_), 0);
    switch (tensor.dtype) {
      case DType::i64: return add_counts<std::int64_t>(tensor.bytes, sum);
      case DType::i32: return add_counts<std::int32_t>(tensor.bytes, sum);
      case DType::f64: return add_counts<double>(tensor.bytes, sum);
      case DType::f32: return add_counts<float>(tensor.bytes, sum);
      default:
        throw Error(Code::DtypeMismatch)
            .at("file", file.path())
            .at("tensor", tensor.name)
            .expected("i64, i32, f64 or f32")
            .found(name(tensor.dtype));
    }
  }

  std::int32_t experts_;
  std::map<CountKey, std::vector<double>> sums_;
  std::set<CountKey> first_;  // what the first rank counts
};

// rank0.safetensors, rank1.safetensors, … without a gap.
std::vector<std::string> rank_files(const std::string& folder) {
  std::set<std::int32_t> ranks;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    const std::string file = entry.path().filename();
    std::int32_t rank = -1;
    if (!file.starts_with("rank") || !file.ends_with(".safetensors")) continue;
    const char* const end = file.data() + file.size();
    const auto [rest, failure] = std::from_chars(file.data() + 4, end, rank);
    if (failure == std::errc{} && std::string_view(rest) == ".safetensors") ranks.insert(rank);
  }
  if (failed) throw Error(Code::FileUnreadable).at("file", folder).found(failed.message());
  std::vector<std::string> paths;
  for (std::int32_t rank : ranks) {
    if (std::cmp_not_equal(rank, paths.size())) {
      throw Error(Code::MissingField)
          .at("file", folder)
          .at("rank", paths.size())
          .expected(fmt::format("rank{}.safetensors, as there is one of rank {}", paths.size(),
                                *ranks.rbegin()));
    }
    paths.push_back(fmt::format("{}/rank{}.safetensors", folder, rank));
  }
  if (paths.empty()) {
    throw Error(Code::MissingField).at("file", folder).expected("rank0.safetensors");
  }
  return paths;
}

}  // namespace

LoadRows tensorrt_llm_loads(const std::string& folder) {
  const JsonDocument meta = read_json_source(folder + "/meta_info.json");
  LoadRows rows;
  rows.file = folder;
  rows.format = FileFormat::tensorrt_llm;
  RankStatistics statistics(
      static_cast<std::int32_t>(meta.root().at("num_experts").as_integer(1, 1 << 20)));
  if (const auto topk = meta.root().find("num_experts_per_token")) {
    rows.topk = static_cast<std::int32_t>(topk->as_integer(1, 1 << 16));
  }
  const std::vector<std::string> paths = rank_files(folder);
  for (const std::string& path : paths) statistics.add(SafetensorsFile::open(path));
  statistics.finish(folder, rows);
  rows.provenance.ranks = static_cast<std::int32_t>(paths.size());
  return rows;
}

}  // namespace waybill
