#include "model/load_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <span>
#include <unordered_set>
#include <utility>

#include "model/expert_layout.h"
#include "waybill/error.h"

namespace waybill {
namespace {

bool is_weight_dtype(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32;
}

class Loader {
 public:
  Loader(const BlockLayout& layout, const ModelConfig& model, const SafetensorsSet& files,
         Faults& faults)
      : layout_(layout), model_(model), files_(files), faults_(faults) {}

  LoadedLayers load() {
    loaded_.path = layout_.path;
    for (const LayerId layer : model_.moe_layers) {
      const std::string block = block_path(layout_.path, layer) + ".";
      loaded_.layers.push_back(
          {router(block), experts(block), shared(block), shared_router(block)});
      list_unused(block);
    }
    return std::move(loaded_);
  }

 private:
  struct Stored {
    const void* data = nullptr;  // null: missing, and listed as such; or faulty, and reported
    DType dtype = DType::f32;
  };

  // The tensor of that name, checked; aligned to its element.
  Stored find(const std::string& name, std::span<const std::int64_t> shape) {
    const SafetensorsSet::Member* member = files_.find(name);
    if (member == nullptr) {
      loaded_.inventory.missing.push_back(name);
      return {};
    }
    const SafetensorsTensor& tensor = *member->tensor;
    const auto error = [&](Code code) {
      return Error(code).at("file", member->file->path()).at("tensor", name);
    };
    used_.insert(tensor.name);
    if (!is_weight_dtype(tensor.dtype)) {
      faults_.report(error(Code::DtypeMismatch).expected("bf16, f16 or f32").found(tensor.dtype));
      return {};
    }
    if (!std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end())) {
      faults_.report(
          error(Code::ShapeMismatch).expected(shape_text(shape)).found(shape_text(tensor.shape)));
      return {};
    }
    return {aligned(tensor), tensor.dtype};
  }

  const void* aligned(const SafetensorsTensor& tensor) {
    const std::span<const std::byte> bytes = tensor.bytes;
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % size_of(tensor.dtype) == 0) {
      return bytes.data();
    }
    auto& copy = loaded_.aligned.emplace_back(new std::byte[bytes.size()]);
    std::memcpy(copy.get(), bytes.data(), bytes.size());
    return copy.get();
  }

  TensorView view(const std::string& name, std::initializer_list<std::int64_t> shape) {
    const Stored stored = find(name, {shape.begin(), shape.size()});
    return TensorView::contiguous(stored.data, stored.dtype, shape);
  }

  Router router(const std::string& block) {
    Router router;
    router.spec = model_.router;
    const auto& [weight, bias, selection_bias, selection_bias_axes] = layout_.router;
    router.weight = view(block + std::string(weight), {model_.experts, model_.hidden});
    if (!bias.empty()) router.bias = view(block + std::string(bias), {model_.experts});
    if (!selection_bias.empty()) {
      const Stored stored = find(block + std::string(selection_bias),
                                 stored_shape(selection_bias_axes, {model_.experts, 0, 0}));
      router.selection_bias = TensorView::contiguous(stored.data, stored.dtype, {model_.experts});
    }
    return router;
  }

  std::optional<Router> shared_router(const std::string& block) {
    if (model_.shared_ff == 0 || layout_.shared_router.empty()) return std::nullopt;
    Router router;
    router.spec = {.score = RouterScore::sigmoid, .experts = 1, .topk = 1};
    router.weight = view(block + std::string(layout_.shared_router), {1, model_.hidden});
    return router;
  }

  std::vector<ExpertWeights> experts(const std::string& block) {
    std::vector<ExpertWeights> experts(static_cast<std::size_t>(model_.experts));
    const ExpertExtents extents{model_.experts, model_.hidden, model_.ff};
    for (const ExpertTensor& declared : layout_.experts) {
      Stored stored;
      for (std::int32_t e = 0; e < model_.experts; ++e) {
        if (e == 0 || !declared.holds_all_experts()) {
          stored = expert_tensor(block, declared, extents, ExpertId(e));
        }
        if (stored.data == nullptr) continue;
        set_views(declared, extents, stored.data, stored.dtype, ExpertId(e),
                  experts[static_cast<std::size_t>(e)]);
      }
    }
    return experts;
  }

  std::optional<ExpertWeights> shared(const std::string& block) {
    if (model_.shared_ff == 0) return std::nullopt;
    ExpertWeights weights;
    const ExpertExtents extents{1, model_.hidden, model_.shared_ff};
    for (const ExpertTensor& declared : layout_.shared) {
      const Stored stored = expert_tensor(block, declared, extents, ExpertId(0));
      if (stored.data == nullptr) continue;
      set_views(declared, extents, stored.data, stored.dtype, ExpertId(0), weights);
    }
    return weights;
  }

  Stored expert_tensor(const std::string& block, const ExpertTensor& declared,
                       const ExpertExtents& extents, ExpertId expert) {
    const Stored stored =
        find(block + expert_name(declared.name, expert), stored_shape(declared.axes, extents));
    if (stored.data != nullptr) ++loaded_.inventory.expert_tensors;
    return stored;
  }

  void list_unused(const std::string& block) {
    for (const SafetensorsSet::Member& member : files_.under(block)) {
      if (!used_.contains(member.name())) loaded_.inventory.unused.emplace_back(member.name());
    }
    used_.clear();
  }

  const BlockLayout& layout_;
  const ModelConfig& model_;
  const SafetensorsSet& files_;
  Faults& faults_;
  LoadedLayers loaded_;
  std::unordered_set<std::string_view> used_;  // names in one block, as `files_` holds them
};

// A message stays readable when a configuration wants a million tensors that aren't there.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most_listed = 2000;
  const std::size_t shown = std::min(names.size(), most_listed);
  std::string text = fmt::format("{}", fmt::join(std::span(names).first(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

Error missing_tensors(const Inventory& inventory, const std::string& directory) {
  Error error(Code::MissingTensor);
  error.at("file", directory).at("tensors", listed(inventory.missing));
  if (!inventory.unused.empty()) {
    error.note("unused tensors of the same blocks: " + listed(inventory.unused));
  }
  return error;
}

}  // namespace

LoadedLayers load_layers(const Family& family, const ModelConfig& model,
                         const SafetensorsSet& files, Faults& faults) {
  const std::size_t before = faults.size();
  std::optional<Inventory> nearest;
  for (const BlockLayout& layout : family.layouts) {
    LoadedLayers loaded = Loader(layout, model, files, faults).load();
    if (loaded.inventory.missing.empty()) return loaded;
    if (faults.size() > before) {  // the layout that is meant
      faults.report(missing_tensors(loaded.inventory, files.directory()));
      return loaded;
    }
    if (!nearest || loaded.inventory.expert_tensors > nearest->expert_tensors) {
      nearest = std::move(loaded.inventory);
    }
  }
  assert(nearest);
  throw missing_tensors(*nearest, files.directory());
}

}  // namespace waybill
