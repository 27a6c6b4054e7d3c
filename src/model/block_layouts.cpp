#include "model/block_layouts.h"

#include <utility>

namespace waybill {
namespace {

std::vector<ExpertTensor> projections(std::string_view gate, std::string_view up,
                                      std::string_view down) {
  return {{Part::gate, gate, {Axis::ff, Axis::hidden}},
          {Part::up, up, {Axis::ff, Axis::hidden}},
          {Part::down, down, {Axis::hidden, Axis::ff}}};
}

}  // namespace

std::vector<ExpertTensor> separate_experts() {
  return projections("experts.{expert}.gate_proj.weight", "experts.{expert}.up_proj.weight",
                     "experts.{expert}.down_proj.weight");
}

std::vector<ExpertTensor> numbered_experts() {
  return projections("experts.{expert}.w1.weight", "experts.{expert}.w3.weight",
                     "experts.{expert}.w2.weight");
}

std::vector<ExpertTensor> stacked_experts() {
  return {{Part::gate_up, "experts.gate_up_proj", {Axis::expert, Axis::gate_then_up, Axis::hidden}},
          {Part::down, "experts.down_proj", {Axis::expert, Axis::hidden, Axis::ff}}};
}

std::vector<ExpertTensor> shared_expert() {
  return projections("shared_expert.gate_proj.weight", "shared_expert.up_proj.weight",
                     "shared_expert.down_proj.weight");
}

std::vector<ExpertTensor> shared_experts() {
  return projections("shared_experts.gate_proj.weight", "shared_experts.up_proj.weight",
                     "shared_experts.down_proj.weight");
}

std::vector<BlockLayout> published_or_stacked(BlockLayout published) {
  BlockLayout stacked = published;
  stacked.experts = stacked_experts();
  return {std::move(published), std::move(stacked)};
}

std::vector<BlockLayout> mixtral_or_stacked(RouterTensors published, RouterTensors stacked) {
  return {{.path = "model.layers.{layer}.block_sparse_moe",
           .router = std::move(published),
           .experts = numbered_experts()},
          {.router = std::move(stacked), .experts = stacked_experts()}};
}

}  // namespace waybill
