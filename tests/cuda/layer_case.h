// A random MoE layer of one rank with its weights and one step's inputs, on the GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "cuda/gpu.h"
#include "exec/cuda/device_layer.h"
#include "waybill/placement.h"
#include "waybill/selection.h"
#include "waybill/topology.h"

namespace waybill::testing {

struct LayerShape {
  std::int32_t hidden, ff, experts, topk;
  Activation activation{};
  bool biases = false;
};

// Host weights of one expert.
struct HostExpert {
  std::vector<__nv_bfloat16> gate, up, down;
  std::vector<float> gate_bias, up_bias, down_bias;
  ExpertWeights view;
};

struct StepInput {
  std::int32_t tokens = 0;
  std::vector<std::int32_t> experts;
  std::vector<float> gates;
  std::vector<__nv_bfloat16> hidden;
};

class LayerCase {
 public:
  LayerCase(const LayerShape& shape, std::int32_t max_tokens, std::uint32_t seed,
            DType return_dtype = DType::bf16, ProductKernel kernel = ProductKernel::chosen)
      : shape_(shape), random_(seed), stream_(Stream::on(gpu)), max_tokens_(max_tokens) {
    for (std::int32_t e = 0; e < shape.experts; ++e) add_expert();
    std::vector<const ExpertWeights*> slots;
    for (const auto& expert : host_) slots.push_back(&expert->view);
    auto experts = std::make_shared<const CudaExperts>(CudaExperts::copy(slots, gpu));
    const Placement placement =
        Placement::contiguous(PlacementVersion{"one-rank"}, shape.experts, 1);
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(shape.experts), 0);
    const SelectionTable table =
        select(Selector::first, placement, Topology::uniform(1), Rank{0}, counts);
    layer_ = std::make_unique<CudaLayer>(
        DeviceLayerOptions{.max_tokens = max_tokens,
                           .topk = shape.topk,
                           .activation = shape.activation,
                           .return_dtype = return_dtype},
        DevicePlanTables(table, placement, ProcessGroup::identity(1), Rank{0}, shape.topk, gpu),
        std::move(experts), kernel);
    const auto routes = static_cast<std::size_t>(max_tokens * shape.topk);
    const auto elements = static_cast<std::size_t>(max_tokens) * hidden();
    ids_ = DeviceArray<std::int32_t>(gpu, routes);
    gates_ = DeviceArray<float>(gpu, routes);
    hidden_ = DeviceArray<__nv_bfloat16>(gpu, elements);
    output_ = DeviceArray<float>(gpu, elements);
  }

  StepInput random_input(std::int32_t tokens) {
    StepInput in;
    in.tokens = tokens;
    std::uniform_real_distribution<float> uniform(0.05F, 1.0F);
    for (std::int32_t r = 0; r < tokens * shape_.topk; ++r) {
      in.experts.push_back(
          std::uniform_int_distribution<std::int32_t>(0, shape_.experts - 1)(random_));
      in.gates.push_back(uniform(random_));
    }
    in.hidden = random_rows(static_cast<std::size_t>(tokens) * hidden(), 1.0F, random_);
    return in;
  }

  // Uploads, with the output poisoned.
  void upload(const StepInput& in) {
    ids_.upload(in.experts);
    gates_.upload(in.gates);
    hidden_.upload(in.hidden);
    output_.upload(std::vector<float>(output_.size(), -12345.0F));
  }
  DeviceStep step(std::int32_t tokens) const {
    return {.experts = matrix(ids_, DType::i32, tokens, shape_.topk),
            .gates = matrix(gates_, DType::f32, tokens, shape_.topk),
            .hidden = matrix(hidden_, DType::bf16, tokens, shape_.hidden),
            .output = matrix(output_, DType::f32, tokens, shape_.hidden)};
  }
  // Output rows of a step that is submitted or replayed: [tokens, hidden].
  std::vector<float> output(std::int32_t tokens) const {
    stream_.synchronize();
    std::vector<float> rows = output_.download();
    rows.resize(static_cast<std::size_t>(tokens) * hidden());
    return rows;
  }
  std::vector<float> run(const StepInput& in) {
    upload(in);
    layer_->forward(step(in.tokens), stream_);
    return output(in.tokens);
  }

  CudaLayer& layer() { return *layer_; }
  const Stream& stream() const { return stream_; }
  const HostExpert& expert(std::size_t e) const { return *host_[e]; }
  const PlacementVersion& placement() const { return layer_->plan().placement(); }
  std::size_t hidden() const { return static_cast<std::size_t>(shape_.hidden); }

 private:
  void add_expert() {
    auto e = std::make_unique<HostExpert>();
    const auto d = static_cast<std::size_t>(shape_.hidden);
    const auto ff = static_cast<std::size_t>(shape_.ff);
    const float scale = 1.0F / std::sqrt(static_cast<float>(shape_.hidden));
    e->gate = random_rows(ff * d, scale, random_);
    e->up = random_rows(ff * d, scale, random_);
    e->down = random_rows(d * ff, scale, random_);
    e->view.gate = TensorView::contiguous(e->gate.data(), DType::bf16, {shape_.ff, shape_.hidden});
    e->view.up = TensorView::contiguous(e->up.data(), DType::bf16, {shape_.ff, shape_.hidden});
    e->view.down = TensorView::contiguous(e->down.data(), DType::bf16, {shape_.hidden, shape_.ff});
    if (shape_.biases) {
      e->gate_bias = random_bias(ff);
      e->up_bias = random_bias(ff);
      e->down_bias = random_bias(d);
      e->view.gate_bias = TensorView::contiguous(e->gate_bias.data(), DType::f32, {shape_.ff});
      e->view.up_bias = TensorView::contiguous(e->up_bias.data(), DType::f32, {shape_.ff});
      e->view.down_bias = TensorView::contiguous(e->down_bias.data(), DType::f32, {shape_.hidden});
    }
    host_.push_back(std::move(e));
  }
  std::vector<float> random_bias(std::size_t size) {
    std::normal_distribution<float> normal(0.0F, 0.5F);
    std::vector<float> bias(size);
    for (float& b : bias) b = normal(random_);
    return bias;
  }

  LayerShape shape_;
  std::mt19937 random_;
  Stream stream_;
  std::int32_t max_tokens_;
  std::vector<std::unique_ptr<HostExpert>> host_;
  std::unique_ptr<CudaLayer> layer_;
  DeviceArray<std::int32_t> ids_;
  DeviceArray<float> gates_;
  DeviceArray<__nv_bfloat16> hidden_;
  DeviceArray<float> output_;
};

}  // namespace waybill::testing
