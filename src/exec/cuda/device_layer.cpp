#include "exec/cuda/device_layer.h"

#include <algorithm>
#include <utility>

#include "base/cuda/stream.h"
#include "base/cuda/tensor_checks.h"
#include "exec/cuda/row_movement.h"
#include "expert/cuda/hopper_gemm.h"
#include "waybill/error.h"

namespace waybill {
namespace {

constexpr std::size_t kClaimBytes = 2 * sizeof(std::uint32_t);
// Mean rows of a slot from which each Hopper kernel is the fastest, as measured
// (docs/decisions/0004, 0007).
constexpr std::int64_t kNarrowFrom = 9, kWideFrom = 49;

struct Buffers {
  std::size_t inner, rows;
};

Buffers buffers(const DeviceLayerOptions& options, const CudaExperts& experts) {
  const auto rows =
      static_cast<std::size_t>(options.max_tokens) * static_cast<std::size_t>(options.topk);
  return {
      .inner = rows * static_cast<std::size_t>(padded_width(experts.ff())) * 2,
      .rows = rows * static_cast<std::size_t>(experts.hidden()) * size_of(options.return_dtype)};
}

std::size_t reserved_bytes(const DeviceLayerOptions& options, const DevicePlanTables& tables,
                           const CudaExperts& experts) {
  const Buffers bytes = buffers(options, experts);
  return CudaPlan::workspace_bytes(tables, options.max_tokens) + Workspace::padded(bytes.inner) +
         Workspace::padded(bytes.rows) + Workspace::padded(kClaimBytes);
}

bool aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

}  // namespace

CudaLayer::CudaLayer(const DeviceLayerOptions& options, DevicePlanTables tables,
                     std::shared_ptr<const CudaExperts> experts, ProductKernel kernel)
    : options_(options),
      kernel_(kernel),
      tables_(std::move(tables)),
      experts_(std::move(experts)),
      workspace_(tables_.device(), reserved_bytes(options, tables_, *experts_)),
      plan_(tables_, options.max_tokens, workspace_),
      hopper_(false),
      multiprocessors_(device_limit(tables_.device(), cudaDevAttrMultiProcessorCount)),
      inner_stride_(padded_width(experts_->ff())) {
  if (experts_->slots() != tables_.view().keys) {
    throw Error(Code::DescriptorSlotMismatch)
        .expected(tables_.view().keys)
        .found(experts_->slots())
        .note("one rank owns every slot");
  }
  if (experts_->hidden() % kElementsPerCopy != 0) {
    throw Error(Code::InvalidValue).at("hidden", experts_->hidden()).expected("a multiple of 8");
  }
  if (options.return_dtype != DType::bf16 && options.return_dtype != DType::f32) {
    throw Error(Code::DtypeMismatch)
        .at("tensor", "returned rows")
        .expected("bf16 or f32")
        .found(options.return_dtype);
  }
  const Buffers bytes = buffers(options, *experts_);
  inner_ = static_cast<__nv_bfloat16*>(workspace_.take(bytes.inner));
  rows_ = workspace_.take(bytes.rows);
  claims_ = static_cast<std::uint32_t*>(workspace_.take(kClaimBytes));
  const DeviceScope scope(tables_.device());
  // The copy engine's boxes reach past a slot's last row, where no step may have written yet.
  WAYBILL_CALL(cudaMemset(inner_, 0, bytes.inner));
  WAYBILL_CALL(cudaMemset(rows_, 0, bytes.rows));
  WAYBILL_CALL(cudaMemset(claims_, 0, kClaimBytes));
  WAYBILL_CALL(cudaStreamSynchronize(cudaStreamLegacy));
  prepare_grouped_gemm();
  const std::int64_t rows = std::int64_t{options.max_tokens} * options.topk;
  inner_maps_ = map_rows(inner_, rows, experts_->ff(), inner_stride_, tables_.device());
  gathered_maps_ = map_rows(rows_, rows, experts_->hidden(), experts_->hidden(), tables_.device());
  hopper_ = experts_->maps() && inner_maps_ && gathered_maps_ && prepare_hopper_gemm();
}

void CudaLayer::check_step(const DeviceStep& step) const {
  const Device device = tables_.device();
  const std::int64_t tokens = step.hidden.shape[0];
  const std::int64_t hidden = experts_->hidden();
  check_tensor(step.hidden, "hidden", device, {DType::bf16}, {tokens, hidden});
  check_contiguous(step.output, "output", device, {DType::bf16, DType::f32}, {tokens, hidden});
  check_contiguous(step.experts, "experts", device, {DType::i32}, {tokens, options_.topk});
  check_contiguous(step.gates, "gates", device, {DType::f32}, {tokens, options_.topk});
  if (step.shared.data != nullptr) {
    check_contiguous(step.shared, "shared", device, {DType::f32}, {tokens, hidden});
  }
  if (tokens == 0) return;
  if (step.hidden.strides[0] % kElementsPerCopy != 0 || !aligned(step.hidden.data) ||
      !aligned(step.output.data) || !aligned(step.shared.data)) {
    throw Error(Code::InvalidValue)
        .at("tensor", "hidden, output or shared")
        .expected("rows 16-byte aligned");
  }
}

ProductKernel CudaLayer::kernel_for(const DeviceStep& step) const {
  if (!hopper_ || kernel_ == ProductKernel::portable) return ProductKernel::portable;
  ProductKernel kernel = kernel_;
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

void CudaLayer::multiply(const DeviceStep& step, cudaStream_t stream) const {
  const PlanView& plan = plan_.view();
  const std::int64_t rows = plan.rows;
  GroupedGemm gate_up{};
  gate_up.input = step.hidden.as<const __nv_bfloat16>();
  gate_up.input_stride = step.hidden.strides[0];
  gate_up.gather = plan.send_order;
  gate_up.gather_divisor = plan.topk;
  gate_up.offsets = plan.key_offsets;
  gate_up.slots = plan.slots;
  gate_up.weights = experts_->table();
  gate_up.weight_stride = experts_->gate_up_stride();
  gate_up.k = experts_->hidden();
  gate_up.n = experts_->ff();
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
  down.weight_stride = experts_->down_stride();
  down.k = experts_->ff();
  down.n = experts_->hidden();
  down.output = rows_;
  down.output_stride = experts_->hidden();
  down.output_dtype = options_.return_dtype;

  const std::optional<WeightMaps>& maps = experts_->maps();
  switch (kernel_for(step)) {
    case ProductKernel::hopper_wide:
      // `rows_` holds the gathered rows until the second product overwrites it.
      launch_permute(
          {plan, gate_up.input, rows_, std::int64_t{2} * experts_->hidden(), gate_up.chained},
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

void CudaLayer::check(const Stream& stream) const { plan_.check(stream); }

Event CudaLayer::forward(const DeviceStep& step, const Stream& stream) {
  enqueue(step, stream);
  return completion(stream);
}

Event CudaLayer::forward(const DeviceStep& step, const Stream& stream, Lease lease) {
  lease.require(plan_.placement());
  if (is_captured(stream)) {
    throw Error(Code::GraphCaptureNotSupported)
        .at("placement", plan_.placement())
        .note("a graph's replays outlast this call; give the lease to capture()");
  }
  Event done = forward(step, stream);
  lease.release_after(done);
  return done;
}

void CudaLayer::enqueue(const DeviceStep& step, const Stream& stream) {
  check_step(step);
  plan_.enqueue(step.experts, stream, step.real_tokens);
  const DeviceScope scope(experts_->device());
  multiply(step, cuda_stream(stream));
  launch_combine({.plan = plan_.view(),
                  .rows = rows_,
                  .row_dtype = options_.return_dtype,
                  .gates = step.gates.as<const float>(),
                  .shared = static_cast<const float*>(step.shared.data),
                  .output = step.output.data,
                  .output_dtype = step.output.dtype,
                  .hidden = experts_->hidden(),
                  .bad_gate = plan_.first_bad_gate(),
                  .chained = plan_.is_chained()},
                 cuda_stream(stream));
}

std::unique_ptr<DeviceLayer> make_device_layer(const DeviceLayerOptions& options,
                                               const SelectionTable& table,
                                               const Placement& placement,
                                               std::shared_ptr<const DeviceExperts> experts) {
  auto resident = std::dynamic_pointer_cast<const CudaExperts>(std::move(experts));
  if (resident == nullptr) {
    throw Error(Code::InvalidValue)
        .at("argument", "experts")
        .expected("what copy_experts() or borrow_experts() made");
  }
  DevicePlanTables tables(table, placement, ProcessGroup::identity(1), Rank{0}, options.topk,
                          resident->device());
  return std::make_unique<CudaLayer>(options, std::move(tables), std::move(resident));
}

}  // namespace waybill
