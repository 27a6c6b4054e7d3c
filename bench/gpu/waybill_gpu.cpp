// The device plan and the one-rank layer behind C functions, so that the benchmark can run them on
// the same tensors, streams and graphs as its peers. A call returns 0, or -1 with the text of
// waybill_gpu_error().
#include <memory>
#include <string>
#include <vector>

#include "exec/cuda/device_layer.h"
#include "exec/cuda/row_movement.h"
#include "waybill/error.h"
#include "waybill/placement.h"
#include "waybill/selection.h"

namespace {

using namespace waybill;

constexpr Device gpu{DeviceKind::cuda, 0};
thread_local std::string error_text;

template <class Call>
int guarded(const Call& call) {
  try {
    call();
    return 0;
  } catch (const std::exception& error) {
    error_text = error.what();
    return -1;
  }
}

DevicePlanTables one_rank_tables(std::int32_t experts, std::int32_t topk) {
  const Placement placement = Placement::contiguous(PlacementVersion{"bench"}, experts, 1);
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(experts), 0);
  return {select(Selector::first, placement, Topology::uniform(1), Rank{0}, counts),
          placement,
          ProcessGroup::identity(1),
          Rank{0},
          topk,
          gpu};
}

struct Plan {
  Plan(std::int32_t experts, std::int32_t topk, std::int32_t max_tokens)
      : tables(one_rank_tables(experts, topk)),
        workspace(gpu, CudaPlan::workspace_bytes(tables, max_tokens)),
        plan(tables, max_tokens, workspace) {}
  DevicePlanTables tables;
  Workspace workspace;
  CudaPlan plan;
};

std::vector<ExpertWeights> engine_weights(std::int64_t experts, std::int64_t hidden,
                                          std::int64_t ff, std::uint16_t* w1, std::uint16_t* w2) {
  std::vector<ExpertWeights> slots(static_cast<std::size_t>(experts));
  for (std::int64_t e = 0; e < experts; ++e) {
    ExpertWeights& w = slots[static_cast<std::size_t>(e)];
    w.gate = TensorView::contiguous(w1 + e * 2 * ff * hidden, DType::bf16, {ff, hidden}, gpu);
    w.up = TensorView::contiguous(w1 + (e * 2 + 1) * ff * hidden, DType::bf16, {ff, hidden}, gpu);
    w.down = TensorView::contiguous(w2 + e * hidden * ff, DType::bf16, {hidden, ff}, gpu);
  }
  return slots;
}

struct Layer {
  Layer(std::int32_t experts_, std::int32_t topk_, std::int32_t max_tokens, std::int32_t hidden,
        std::int32_t ff, std::uint16_t* w1, std::uint16_t* w2, ProductKernel kernel)
      : topk(topk_),
        experts(std::make_shared<const CudaExperts>(
            CudaExperts::borrow(engine_weights(experts_, hidden, ff, w1, w2), gpu))),
        layer({.max_tokens = max_tokens, .topk = topk}, one_rank_tables(experts_, topk), experts,
              kernel) {}
  std::int32_t topk;
  std::shared_ptr<const CudaExperts> experts;
  CudaLayer layer;
};

}  // namespace

extern "C" {

const char* waybill_gpu_error() { return error_text.c_str(); }

void* waybill_gpu_plan(int experts, int topk, int max_tokens) {
  std::unique_ptr<Plan> plan;
  guarded([&] { plan = std::make_unique<Plan>(experts, topk, max_tokens); });
  return plan.release();
}
void waybill_gpu_free_plan(void* plan) { delete static_cast<Plan*>(plan); }
int waybill_gpu_build(void* plan, int tokens, const int* ids, void* stream) {
  return guarded([&] {
    CudaPlan& p = static_cast<Plan*>(plan)->plan;
    p.build(TensorView::contiguous(ids, DType::i32, {tokens, p.view().topk}, gpu),
            Stream::borrow(gpu, stream), {});
  });
}
// Device address of a column of the plan, for whoever checks it: 0 send_order, 1 send_position,
// 2 key_offsets, 3 expert_counts.
const int* waybill_gpu_plan_column(void* plan, int column) {
  const PlanView& view = static_cast<Plan*>(plan)->plan.view();
  const std::int32_t* const columns[] = {view.send_order, view.send_position, view.key_offsets,
                                         view.expert_counts};
  return columns[column];
}
// hidden [T, row_bytes] to send order, and rows [T*k, hidden] bf16 back to [T, hidden] bf16, under
// the plan built last.
int waybill_gpu_permute(void* plan, const void* hidden, void* send, long row_bytes, void* stream) {
  return guarded([&] {
    launch_permute({static_cast<Plan*>(plan)->plan.view(), hidden, send, row_bytes},
                   static_cast<cudaStream_t>(stream));
  });
}
int waybill_gpu_combine(void* plan, const void* rows, const float* gates, void* output, int hidden,
                        void* stream) {
  return guarded([&] {
    launch_combine({.plan = static_cast<Plan*>(plan)->plan.view(),
                    .rows = rows,
                    .row_dtype = DType::bf16,
                    .gates = gates,
                    .shared = nullptr,
                    .output = output,
                    .output_dtype = DType::bf16,
                    .hidden = hidden,
                    .bad_gate = static_cast<Plan*>(plan)->plan.first_bad_gate()},
                   static_cast<cudaStream_t>(stream));
  });
}

// w1 [E, 2 * ff, hidden], w2 [E, hidden, ff], bf16, used in place; `kernel` is a ProductKernel.
void* waybill_gpu_layer(int experts, int topk, int max_tokens, int hidden, int ff, void* w1,
                        void* w2, int kernel) {
  std::unique_ptr<Layer> layer;
  guarded([&] {
    layer = std::make_unique<Layer>(
        experts, topk, max_tokens, hidden, ff, static_cast<std::uint16_t*>(w1),
        static_cast<std::uint16_t*>(w2), static_cast<ProductKernel>(kernel));
  });
  return layer.release();
}
void waybill_gpu_free_layer(void* layer) { delete static_cast<Layer*>(layer); }
int waybill_gpu_forward(void* layer, int tokens, const int* ids, const float* gates, void* hidden,
                        void* output, void* stream) {
  return guarded([&] {
    Layer& l = *static_cast<Layer*>(layer);
    const std::int64_t d = l.experts->hidden();
    l.layer.forward({.experts = TensorView::contiguous(ids, DType::i32, {tokens, l.topk}, gpu),
                     .gates = TensorView::contiguous(gates, DType::f32, {tokens, l.topk}, gpu),
                     .hidden = TensorView::contiguous(hidden, DType::bf16, {tokens, d}, gpu),
                     .output = TensorView::contiguous(output, DType::bf16, {tokens, d}, gpu)},
                    Stream::borrow(gpu, stream));
  });
}
int waybill_gpu_check(void* layer, void* stream) {
  return guarded([&] { static_cast<Layer*>(layer)->layer.check(Stream::borrow(gpu, stream)); });
}

}  // extern "C"
