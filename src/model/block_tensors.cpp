#include "model/block_tensors.h"

#include "model/expert_layout.h"

namespace waybill {
namespace {

std::int64_t inputs_of(Part part, const ExpertExtents& extents) {
  switch (part) {
    case Part::gate:
    case Part::up:
    case Part::gate_up: return extents.hidden;
    case Part::down: return extents.ff;
    case Part::gate_bias:
    case Part::up_bias:
    case Part::gate_up_bias:
    case Part::down_bias: return 0;
  }
  return 0;
}

class BlockTensors {
 public:
  BlockTensors(const BlockLayout& layout, const ModelConfig& model)
      : layout_(layout),
        model_(model),
        routed_{model.experts, model.hidden, model.ff},
        shared_{1, model.hidden, model.shared_ff} {}

  void add_block(LayerId layer) {
    block_ = block_path(layout_.path, layer) + ".";
    const RouterTensors& router = layout_.router;
    add(router.weight, {Axis::expert, Axis::hidden}, model_.hidden);
    if (!router.bias.empty()) add(router.bias, {Axis::expert}, 0);
    if (!router.selection_bias.empty()) add(router.selection_bias, router.selection_bias_axes, 0);
    for (std::int32_t e = 0; e < model_.experts; ++e) {
      for (const ExpertTensor& declared : layout_.experts) {
        if (e == 0 || !declared.holds_all_experts()) add_expert(declared, routed_, ExpertId(e));
      }
    }
    if (model_.shared_ff == 0) return;
    for (const ExpertTensor& declared : layout_.shared) add_expert(declared, shared_, ExpertId(0));
    if (!layout_.shared_router.empty()) {
      add(layout_.shared_router, {Axis::one, Axis::hidden}, model_.hidden);
    }
  }

  std::vector<BlockTensor> take() { return std::move(tensors_); }

 private:
  void add(std::string_view name, const std::vector<Axis>& axes, std::int64_t inputs) {
    tensors_.push_back({block_ + std::string(name), stored_shape(axes, routed_), inputs});
  }
  void add_expert(const ExpertTensor& declared, const ExpertExtents& extents, ExpertId expert) {
    tensors_.push_back({block_ + expert_name(declared.name, expert),
                        stored_shape(declared.axes, extents), inputs_of(declared.part, extents)});
  }

  const BlockLayout& layout_;
  const ModelConfig& model_;
  const ExpertExtents routed_, shared_;
  std::string block_;
  std::vector<BlockTensor> tensors_;
};

}  // namespace

std::vector<BlockTensor> block_tensors(const BlockLayout& layout, const ModelConfig& model) {
  BlockTensors tensors(layout, model);
  for (const LayerId layer : model.moe_layers) tensors.add_block(layer);
  return tensors.take();
}

}  // namespace waybill
