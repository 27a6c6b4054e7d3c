#include "exec/cuda/device_layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/cuda/row_movement.h"
#include "waybill/error.h"

namespace waybill {
namespace {

constexpr std::int64_t kElementsPerCopy = 8;

std::int64_t padded(std::int64_t n) {
  return (n + kElementsPerCopy - 1) / kElementsPerCopy * kElementsPerCopy;
}

struct Buffers {
  std::size_t inner, rows;
};

Buffers buffers(const DeviceLayerOptions& options, std::int32_t topk,
                const DeviceExperts& experts) {
  const auto rows = static_cast<std::size_t>(options.max_tokens) * static_cast<std::size_t>(topk);
  return {
      .inner = rows * static_cast<std::size_t>(padded(experts.ff())) * 2,
      .rows = rows * static_cast<std::size_t>(experts.hidden()) * size_of(options.return_dtype)};
}

void require_dtype(DType dtype, const char* tensor, bool allow_f32) {
  if (dtype == DType::bf16 || (allow_f32 && dtype == DType::f32)) return;
  throw Error(Code::DtypeMismatch)
      .at("tensor", tensor)
      .expected(allow_f32 ? "bf16 or f32" : "bf16")
      .found(dtype);
}

void require_rows(const TensorView& view, const char* tensor, std::int64_t tokens,
                  std::int64_t hidden) {
  if (view.rank == 2 && view.shape[0] == tokens && view.shape[1] == hidden) return;
  throw Error(Code::ShapeMismatch)
      .at("tensor", tensor)
      .expected(fmt::format("[{}, {}]", tokens, hidden))
      .found(shape_text(view));
}

bool aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

}  // namespace

std::size_t DeviceLayer::workspace_bytes(const DeviceLayerOptions& options,
                                         const DevicePlanTables& tables,
                                         const DeviceExperts& experts) {
  const Buffers bytes = buffers(options, tables.view().topk, experts);
  return DevicePlan::workspace_bytes(tables, options.max_tokens) + Workspace::padded(bytes.inner) +
         Workspace::padded(bytes.rows);
}

DeviceLayer::DeviceLayer(const DeviceLayerOptions& options, const DevicePlanTables& tables,
                         const DeviceExperts& experts)
    : options_(options),
      experts_(experts),
      workspace_(tables.device(), workspace_bytes(options, tables, experts)),
      plan_(tables, options.max_tokens, workspace_),
      inner_stride_(padded(experts.ff())) {
  if (experts.slots() != tables.view().keys) {
    throw Error(Code::DescriptorSlotMismatch)
        .expected(tables.view().keys)
        .found(experts.slots())
        .note("one rank owns every slot");
  }
  if (experts.hidden() % kElementsPerCopy != 0) {
    throw Error(Code::InvalidValue).at("hidden", experts.hidden()).expected("a multiple of 8");
  }
  require_dtype(options.return_dtype, "returned rows", true);
  const Buffers bytes = buffers(options, tables.view().topk, experts);
  inner_ = static_cast<__nv_bfloat16*>(workspace_.take(bytes.inner));
  rows_ = workspace_.take(bytes.rows);
  const DeviceScope scope(tables.device());
  prepare_grouped_gemm();
}

void DeviceLayer::check_step(const DeviceStep& step) const {
  require_rows(step.hidden, "hidden", step.tokens, experts_.hidden());
  require_rows(step.output, "output", step.tokens, experts_.hidden());
  require_dtype(step.hidden.dtype, "hidden", false);
  require_dtype(step.output.dtype, "output", true);
  if (step.tokens == 0) return;
  if (step.hidden.strides[1] != 1 || step.hidden.strides[0] % kElementsPerCopy != 0 ||
      !step.output.is_contiguous() || !aligned(step.hidden.data) || !aligned(step.output.data) ||
      !aligned(step.shared)) {
    throw Error(Code::InvalidValue)
        .at("tensor", "hidden, output or shared")
        .expected("rows contiguous and 16-byte aligned");
  }
}

void DeviceLayer::forward(const DeviceStep& step, const Stream& stream) {
  check_step(step);
  plan_.build(step.tokens, step.experts, stream, step.real_tokens);
  const PlanView& plan = plan_.view();
  const DeviceScope scope(experts_.device());
  cudaStream_t native = cuda_stream(stream);
  const std::int64_t rows = plan.rows;
  const TileRows tile = choose_tile_rows(rows, std::min(plan.slots, plan.rows));

  GroupedGemm gemm{};
  gemm.input = step.hidden.as<const __nv_bfloat16>();
  gemm.input_stride = step.hidden.strides[0];
  gemm.gather = plan.send_order;
  gemm.gather_divisor = plan.topk;
  gemm.offsets = plan.key_offsets;
  gemm.slots = plan.slots;
  gemm.weights = experts_.table();
  gemm.weight_stride = experts_.gate_up_stride();
  gemm.k = experts_.hidden();
  gemm.n = experts_.ff();
  gemm.output = inner_;
  gemm.output_stride = inner_stride_;
  gemm.output_dtype = DType::bf16;
  gemm.activation = options_.activation;
  gemm.status = plan.status;
  launch_gate_up(gemm, tile, rows, native);

  gemm.input = inner_;
  gemm.input_stride = inner_stride_;
  gemm.gather = nullptr;
  gemm.weight_stride = experts_.down_stride();
  gemm.k = experts_.ff();
  gemm.n = experts_.hidden();
  gemm.output = rows_;
  gemm.output_stride = experts_.hidden();
  gemm.output_dtype = options_.return_dtype;
  launch_down(gemm, tile, rows, native);

  launch_combine({.plan = plan,
                  .rows = rows_,
                  .row_dtype = options_.return_dtype,
                  .gates = step.gates,
                  .shared = step.shared,
                  .output = step.output.data,
                  .output_dtype = step.output.dtype,
                  .hidden = experts_.hidden()},
                 native);
}

struct CapturedStep::State {
  Device device;
  cudaGraphExec_t graph = nullptr;
  ~State() {
    if (graph != nullptr) static_cast<void>(cudaGraphExecDestroy(graph));
  }
};

CapturedStep::CapturedStep(DeviceLayer& layer, const DeviceStep& step, const Stream& stream)
    : state_(std::make_unique<State>()) {
  state_->device = stream.device();
  const DeviceScope scope(state_->device);
  cudaStream_t native = cuda_stream(stream);
  WAYBILL_CALL(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    layer.forward(step, stream);
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(native, &graph));
    static_cast<void>(cudaGraphDestroy(graph));
    throw;
  }
  WAYBILL_CALL(cudaStreamEndCapture(native, &graph));
  const cudaError_t made = cudaGraphInstantiate(&state_->graph, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  check_call(made, "cudaGraphInstantiate");
}

CapturedStep::~CapturedStep() = default;
CapturedStep::CapturedStep(CapturedStep&&) noexcept = default;
CapturedStep& CapturedStep::operator=(CapturedStep&&) noexcept = default;

void CapturedStep::replay(const Stream& stream) const {
  const DeviceScope scope(state_->device);
  WAYBILL_CALL(cudaGraphLaunch(state_->graph, cuda_stream(stream)));
}

}  // namespace waybill
