#include "exec/cuda/device_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/cuda/stream.h"
#include "exec/cuda/row_movement.h"
#include "expert/cuda/hopper_gemm.h"
#include "waybill/error.h"

namespace waybill {
namespace {

constexpr std::int64_t kElementsPerCopy = 8;
constexpr std::size_t kClaimBytes = 2 * sizeof(std::uint32_t);
// Mean rows of a slot from which each Hopper kernel is the fastest, as measured
// (docs/decisions/0004, 0007).
constexpr std::int64_t kNarrowFrom = 9, kWideFrom = 49;

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
         Workspace::padded(bytes.rows) + Workspace::padded(kClaimBytes);
}

DeviceLayer::DeviceLayer(const DeviceLayerOptions& options, const DevicePlanTables& tables,
                         const DeviceExperts& experts)
    : options_(options),
      experts_(experts),
      workspace_(tables.device(), workspace_bytes(options, tables, experts)),
      plan_(tables, options.max_tokens, workspace_),
      hopper_(false),
      multiprocessors_(device_limit(tables.device(), cudaDevAttrMultiProcessorCount)),
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
  claims_ = static_cast<std::uint32_t*>(workspace_.take(kClaimBytes));
  const DeviceScope scope(tables.device());
  // The copy engine's boxes reach past a slot's last row, where no step may have written yet.
  WAYBILL_CALL(cudaMemset(inner_, 0, bytes.inner));
  WAYBILL_CALL(cudaMemset(rows_, 0, bytes.rows));
  WAYBILL_CALL(cudaMemset(claims_, 0, kClaimBytes));
  WAYBILL_CALL(cudaStreamSynchronize(cudaStreamLegacy));
  prepare_grouped_gemm();
  const std::int64_t rows = std::int64_t{options.max_tokens} * tables.view().topk;
  inner_maps_ = map_rows(inner_, rows, experts.ff(), inner_stride_, tables.device());
  gathered_maps_ = map_rows(rows_, rows, experts.hidden(), experts.hidden(), tables.device());
  hopper_ = experts.maps() && inner_maps_ && gathered_maps_ && prepare_hopper_gemm();
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

ProductKernel DeviceLayer::kernel_for(const DeviceStep& step) const {
  if (!hopper_ || options_.kernel == ProductKernel::portable) return ProductKernel::portable;
  ProductKernel kernel = options_.kernel;
  if (kernel == ProductKernel::chosen) {
    const PlanView& plan = plan_.view();
    const std::int64_t per_slot = plan.rows / std::max(plan.slots, 1);
    if (per_slot < kNarrowFrom) return ProductKernel::portable;
    kernel = per_slot < kWideFrom ? ProductKernel::hopper_narrow : ProductKernel::hopper_wide;
  }
  // The gathered rows of the wide kernel are made from rows without gaps.
  const bool wide = kernel == ProductKernel::hopper_wide && step.hidden.is_contiguous();
  return wide ? ProductKernel::hopper_wide : ProductKernel::hopper_narrow;
}

void DeviceLayer::multiply(const DeviceStep& step, cudaStream_t stream) const {
  const PlanView& plan = plan_.view();
  const std::int64_t rows = plan.rows;
  GroupedGemm gate_up{};
  gate_up.input = step.hidden.as<const __nv_bfloat16>();
  gate_up.input_stride = step.hidden.strides[0];
  gate_up.gather = plan.send_order;
  gate_up.gather_divisor = plan.topk;
  gate_up.offsets = plan.key_offsets;
  gate_up.slots = plan.slots;
  gate_up.weights = experts_.table();
  gate_up.weight_stride = experts_.gate_up_stride();
  gate_up.k = experts_.hidden();
  gate_up.n = experts_.ff();
  gate_up.output = inner_;
  gate_up.output_stride = inner_stride_;
  gate_up.output_dtype = DType::bf16;
  gate_up.activation = options_.activation;
  gate_up.status = plan.status;
  gate_up.chained = plan_.is_chained();
  gate_up.claimed = claims_;
  gate_up.unclaimed = claims_ + 1;

  GroupedGemm down = gate_up;
  down.plan_is_older = true;
  std::swap(down.claimed, down.unclaimed);
  down.input = inner_;
  down.input_stride = inner_stride_;
  down.gather = nullptr;
  down.weight_stride = experts_.down_stride();
  down.k = experts_.ff();
  down.n = experts_.hidden();
  down.output = rows_;
  down.output_stride = experts_.hidden();
  down.output_dtype = options_.return_dtype;

  const std::optional<WeightMaps>& maps = experts_.maps();
  switch (kernel_for(step)) {
    case ProductKernel::hopper_wide:
      // `rows_` holds the gathered rows until the second product overwrites it.
      launch_permute(
          {plan, gate_up.input, rows_, std::int64_t{2} * experts_.hidden(), gate_up.chained},
          stream);
      gate_up.plan_is_older = true;
      launch_wide_gate_up(gate_up, maps->gate_up, *gathered_maps_, rows, multiprocessors_, stream);
      launch_wide_down(down, maps->down, *inner_maps_, rows, multiprocessors_, stream);
      break;
    case ProductKernel::hopper_narrow:
      launch_narrow_gate_up(gate_up, maps->gate_up, rows, multiprocessors_, stream);
      launch_narrow_down(down, maps->down, rows, multiprocessors_, stream);
      break;
    default:
      const TileRows tile = choose_tile_rows(rows, std::min(plan.slots, plan.rows));
      launch_gate_up(gate_up, tile, rows, stream);
      launch_down(down, tile, rows, stream);
  }
}

Event DeviceLayer::forward(const DeviceStep& step, const Stream& stream) {
  enqueue(step, stream);
  return completion(stream);
}

Event DeviceLayer::forward(const DeviceStep& step, const Stream& stream, Lease lease) {
  lease.require(plan_.placement());
  if (is_captured(stream)) {
    throw Error(Code::GraphCaptureNotSupported)
        .at("placement", plan_.placement())
        .note("a graph's replays outlast this call; give the lease to CapturedStep");
  }
  Event done = forward(step, stream);
  lease.release_after(done);
  return done;
}

void DeviceLayer::enqueue(const DeviceStep& step, const Stream& stream) {
  check_step(step);
  plan_.enqueue(step.tokens, step.experts, stream, step.real_tokens);
  const DeviceScope scope(experts_.device());
  multiply(step, cuda_stream(stream));
  launch_combine({.plan = plan_.view(),
                  .rows = rows_,
                  .row_dtype = options_.return_dtype,
                  .gates = step.gates,
                  .shared = step.shared,
                  .output = step.output.data,
                  .output_dtype = step.output.dtype,
                  .hidden = experts_.hidden(),
                  .chained = plan_.is_chained()},
                 cuda_stream(stream));
}

struct CapturedStep::State {
  Device device;
  cudaGraphExec_t graph = nullptr;
  Lease lease;
  Event last_replay;
  ~State() {
    if (lease) lease.release_after(last_replay);
    if (graph != nullptr) static_cast<void>(cudaGraphExecDestroy(graph));
  }
};

CapturedStep::CapturedStep(DeviceLayer& layer, const DeviceStep& step, const Stream& stream,
                           Lease lease)
    : state_(std::make_unique<State>()) {
  if (lease) lease.require(layer.plan().placement());
  state_->lease = std::move(lease);
  state_->device = stream.device();
  const DeviceScope scope(state_->device);
  cudaStream_t native = cuda_stream(stream);
  WAYBILL_CALL(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    layer.enqueue(step, stream);
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

Event CapturedStep::replay(const Stream& stream) {
  const DeviceScope scope(state_->device);
  WAYBILL_CALL(cudaGraphLaunch(state_->graph, cuda_stream(stream)));
  state_->last_replay = stream.record();
  return state_->last_replay;
}

}  // namespace waybill
