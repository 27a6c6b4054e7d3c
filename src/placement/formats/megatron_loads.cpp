#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "io/npz.h"
#include "placement/formats/loads.h"
#include "waybill/error.h"

namespace waybill {
namespace {

constexpr std::int64_t most_slots = std::int64_t{1} << 20U;
constexpr std::size_t most_loads = std::size_t{1} << 28U;  // 2 GiB of sums

std::int32_t scalar_in(const NpzFile& file, std::string_view key) {
  const NpyArray& array = file.at(key);
  const std::vector<double> values = array.numbers();
  if (values.size() != 1 || !(values[0] >= 0 && values[0] < (1 << 20)) ||
      values[0] != std::floor(values[0])) {
    throw Error(Code::InvalidValue)
        .at("file", file.path())
        .at("array", key)
        .expected("a whole number")
        .found(values.size() == 1 ? fmt::format("{}", values[0])
                                  : fmt::format("{} values", values.size()));
  }
  return static_cast<std::int32_t>(values[0]);
}

std::vector<LayerId> layer_numbers(const NpzFile& file, std::size_t rows) {
  std::vector<LayerId> layers;
  const NpyArray* array = file.find("layer_numbers");
  if (array == nullptr) return layers;
  for (double value : array->numbers()) {
    if (!(value >= 0 && value < (1 << 20)) || value != std::floor(value)) {
      throw Error(Code::InvalidValue)
          .at("file", file.path())
          .at("array", "layer_numbers")
          .expected("a layer's number")
          .found(value);
    }
    layers.emplace_back(static_cast<std::int32_t>(value));
  }
  if (layers.size() != rows) {
    throw Error(Code::ShapeMismatch)
        .at("file", file.path())
        .at("array", "layer_numbers")
        .expected(fmt::format("[{}]", rows))
        .found(fmt::format("[{}]", layers.size()));
  }
  return layers;
}

// The sum of all ranks' loads [layers, forwards, slots].
class GroupLoads {
 public:
  void add(const NpzFile& file) {
    const NpyArray& loads = file.at("loads");
    const std::int32_t rank = scalar_in(file, "ep_rank"), ranks = scalar_in(file, "ep_size");
    const bool first = paths_.empty();
    if (first) {
      shape_ = loads.shape;
      ranks_ = ranks;
      if (shape_.size() != 3 || std::ranges::find(shape_, 0) != shape_.end() ||
          shape_[0] > most_slots || shape_[2] > most_slots ||
          loads.bytes.size() / size_of(loads.dtype) > most_loads) {
        throw shape_fault(file, loads)
            .expected(fmt::format("[layers, forwards, slots], at most {} loads", most_loads));
      }
      layers_ = layer_numbers(file, static_cast<std::size_t>(shape_[0]));
      sum_.assign(loads.numbers().size(), 0);
    }
    if (loads.shape != shape_) {
      throw shape_fault(file, loads)
          .expected(fmt::format("[{}], as on the other ranks", fmt::join(shape_, ", ")));
    }
    if (ranks != ranks_ || rank >= ranks) {
      throw Error(Code::RankCountMismatch)
          .at("file", file.path())
          .expected(fmt::format("a rank of a group of {}", ranks_))
          .found(fmt::format("rank {} of {}", rank, ranks));
    }
    if (!paths_.emplace(rank, file.path()).second) {
      throw Error(Code::DuplicateKey)
          .at("file", file.path())
          .at("rank", rank)
          .expected(fmt::format("one file of it; {} is another", paths_[rank]));
    }
    if (layer_numbers(file, static_cast<std::size_t>(shape_[0])) != layers_) {
      throw Error(Code::ShapeMismatch)
          .at("file", file.path())
          .at("array", "layer_numbers")
          .expected("those of the other ranks");
    }
    const std::vector<double> own = loads.numbers();
    for (std::size_t i = 0; i < own.size(); ++i) sum_[i] += own[i];
  }

  void check_complete() const {
    for (std::int32_t rank = 0; rank < ranks_; ++rank) {
      if (paths_.contains(rank)) continue;
      throw Error(Code::MissingField)
          .at("file", paths_.begin()->second)
          .at("rank", rank)
          .expected(fmt::format("a file for each of {} ranks: their loads are summed", ranks_))
          .found(fmt::format("{} files", paths_.size()))
          .note("name the folder that holds them all");
    }
  }

  LoadRows rows(const FileHints& hints) const {
    LoadRows rows;
    rows.file = paths_.begin()->second;
    rows.format = FileFormat::megatron;
    rows.rows = static_cast<std::int32_t>(shape_[0]);
    rows.layers = layers_;
    rows.provenance.ranks = ranks_;
    auto slot_experts = hints.slot_experts;
    if (slot_experts.empty()) {
      auto& one_to_one = slot_experts.emplace_back();
      for (std::int32_t e = 0; e < shape_[2]; ++e) one_to_one.push_back(e);
      rows.warnings.push_back(fmt::format(
          "loads are by slot and no placement is given: slot i is read as expert i of {}",
          shape_[2]));
    }
    rows.experts = hints.experts.value_or(experts_in(slot_experts));
    for (std::int64_t forward = 0; forward < shape_[1]; ++forward) {
      RowWindow window;
      window.load =
          fold_slots(forward_loads(forward), rows.rows, rows.experts, slot_experts, rows.file);
      window.first_step = window.last_step = forward;
      rows.windows.push_back(std::move(window));
    }
    return rows;
  }

 private:
  static Error shape_fault(const NpzFile& file, const NpyArray& loads) {
    return Error(Code::ShapeMismatch)
        .at("file", file.path())
        .at("array", "loads")
        .found(fmt::format("[{}]", fmt::join(loads.shape, ", ")));
  }
  // [layers, slots] of one forward pass.
  std::vector<double> forward_loads(std::int64_t forward) const {
    std::vector<double> loads;
    for (std::int64_t layer = 0; layer < shape_[0]; ++layer) {
      const auto from = sum_.begin() + (layer * shape_[1] + forward) * shape_[2];
      loads.insert(loads.end(), from, from + shape_[2]);
    }
    return loads;
  }

  std::vector<std::int64_t> shape_;
  std::int32_t ranks_ = 0;
  std::vector<LayerId> layers_;
  std::map<std::int32_t, std::string> paths_;
  std::vector<double> sum_;
};

}  // namespace

LoadRows megatron_loads(std::span<const std::string> paths, const FileHints& hints) {
  GroupLoads group;
  for (const std::string& path : paths) group.add(NpzFile::open(path));
  group.check_complete();
  return group.rows(hints);
}

}  // namespace waybill
