#include "plan/cuda/device_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/cuda/call.h"
#include "base/cuda/stream.h"
#include "base/cuda/tensor_checks.h"
#include "waybill/error.h"

namespace waybill {
namespace {

std::size_t shared_limit(Device device) {
  // The kernels' static shared memory comes out of the same limit.
  return static_cast<std::size_t>(device_limit(device, cudaDevAttrMaxSharedMemoryPerBlockOptin)) -
         1024;
}

struct Extent {
  std::size_t routes, experts, keys, peers, tiles, stride;
};

Extent extent(const DevicePlanTables& tables, std::int32_t max_tokens) {
  const plan_device::Tables& t = tables.view();
  const std::int64_t routes = std::int64_t{max_tokens} * t.topk;
  if (max_tokens < 0 || t.topk < 1 || routes > std::numeric_limits<std::int32_t>::max()) {
    throw Error(Code::InvalidValue).at("tokens", max_tokens).at("topk", t.topk);
  }
  const auto n = static_cast<std::int32_t>(routes);
  const std::size_t limit = shared_limit(tables.device());
  plan_device::Shape shape;
  if (!plan_device::choose_shape(t, n, limit, shape)) {
    throw Error(Code::InvalidValue)
        .at("experts", t.experts)
        .at("slots", t.keys)
        .note("the device plan counts them in a block's shared memory");
  }
  return {.routes = static_cast<std::size_t>(routes),
          .experts = static_cast<std::size_t>(t.experts),
          .keys = static_cast<std::size_t>(t.keys),
          .peers = static_cast<std::size_t>(t.peers),
          .tiles = static_cast<std::size_t>(plan_device::max_tiles(t, n, limit)),
          .stride = static_cast<std::size_t>(shape.stride)};
}

// visit(bytes) for every column, in the order in which they are taken.
template <class Visit>
void for_each_column(const Extent& n, const Visit& visit) {
  for (int i = 0; i < 3; ++i) visit(n.routes * 4);  // slot, send position, send order
  visit((n.keys + 1) * 4);
  visit((n.peers + 1) * 4);
  visit(n.experts * 4);
  visit(sizeof(plan_device::Status));
  visit(n.experts * 8);
  visit(n.tiles * n.stride * 2);
  visit(n.tiles * 4);
}

}  // namespace

std::size_t CudaPlan::workspace_bytes(const DevicePlanTables& tables, std::int32_t max_tokens) {
  std::size_t sum = 0;
  for_each_column(extent(tables, max_tokens),
                  [&sum](std::size_t bytes) { sum += Workspace::padded(bytes); });
  return sum;
}

CudaPlan::CudaPlan(const DevicePlanTables& tables, std::int32_t max_tokens, Workspace& workspace)
    : tables_(tables),
      max_tokens_(max_tokens),
      multiprocessors_(device_limit(tables.device(), cudaDevAttrMultiProcessorCount)),
      shared_limit_(shared_limit(tables.device())) {
  std::vector<void*> pieces;
  const Extent n = extent(tables, max_tokens);
  for_each_column(n, [&](std::size_t bytes) { pieces.push_back(workspace.take(bytes)); });
  const auto ints = [&pieces](std::size_t i) { return static_cast<std::int32_t*>(pieces[i]); };
  columns_ = {.slot = ints(0),
              .send_position = ints(1),
              .send_order = ints(2),
              .key_offsets = ints(3),
              .send_offsets = ints(4),
              .expert_counts = ints(5),
              .status = static_cast<plan_device::Status*>(pieces[6]),
              .load = static_cast<unsigned long long*>(pieces[7])};
  scratch_ = {.tile_counts = static_cast<std::uint32_t*>(pieces[8]), .tile_bad = ints(9)};
  const plan_device::Tables& t = tables.view();
  view_ = {.tokens = 0,
           .topk = t.topk,
           .experts = t.experts,
           .slots = t.keys,
           .peers = t.peers,
           .rows = 0,
           .slot = columns_.slot,
           .send_position = columns_.send_position,
           .send_order = columns_.send_order,
           .key_offsets = columns_.key_offsets,
           .key_slot = t.key_slot,
           .send_offsets = columns_.send_offsets,
           .expert_counts = columns_.expert_counts,
           .status = &columns_.status->bits,
           .payload_offsets = nullptr,
           .payload_token = nullptr,
           .payload_row = nullptr};
  const DeviceScope scope(tables.device());
  WAYBILL_CALL(cudaMemset(columns_.load, 0, n.experts * 8));
  const plan_device::Status nothing_yet{0, 0, -1, 0, plan_device::kNoBadGate};
  WAYBILL_CALL(
      cudaMemcpy(columns_.status, &nothing_yet, sizeof nothing_yet, cudaMemcpyHostToDevice));
  WAYBILL_CALL(cudaDeviceSynchronize());
  chained_ = plan_device::prepare(shared_limit_);
}

Event CudaPlan::build(const TensorView& experts, const Stream& stream,
                      const TensorView& real_tokens) {
  enqueue(experts, stream, real_tokens);
  return completion(stream);
}

void CudaPlan::enqueue(const TensorView& experts, const Stream& stream,
                       const TensorView& real_tokens) {
  const Device device = tables_.device();
  const std::int64_t tokens = experts.shape[0];
  check_contiguous(experts, "experts", device, {DType::i32}, {tokens, view_.topk});
  if (real_tokens.data != nullptr) {
    check_contiguous(real_tokens, "real tokens", device, {DType::i32}, {1});
  }
  if (tokens > max_tokens_) {
    throw Error(Code::WorkspaceTooSmall)
        .at("device", device)
        .expected(fmt::format("at most {} tokens", max_tokens_))
        .found(tokens);
  }
  view_.tokens = static_cast<std::int32_t>(tokens);
  view_.rows = view_.tokens * view_.topk;
  plan_device::Shape shape;
  plan_device::choose_shape(tables_.view(), view_.rows, shared_limit_, shape);
  const DeviceScope scope(device);
  plan_device::launch(tables_.view(),
                      {experts.as<const std::int32_t>(), view_.rows,
                       static_cast<const std::int32_t*>(real_tokens.data)},
                      columns_, scratch_, shape, multiprocessors_, chained_, cuda_stream(stream));
}

void CudaPlan::check(const Stream& stream) const {
  plan_device::Status status{};
  const DeviceScope scope(tables_.device());
  WAYBILL_CALL(cudaMemcpyAsync(&status, columns_.status, sizeof status, cudaMemcpyDeviceToHost,
                               cuda_stream(stream)));
  stream.synchronize();
  if ((status.bits & static_cast<std::uint32_t>(PlanStatus::expert_id_out_of_range)) != 0) {
    throw Error(Code::ExpertIdOutOfRange)
        .at("token", status.first_bad_route / view_.topk)
        .at("route slot", status.first_bad_route % view_.topk)
        .at("bad routes", status.bad_routes)
        .expected(fmt::format("an id in [0, {}) or {}", view_.experts, dropped_route))
        .found(status.first_bad_id);
  }
  if (status.bits != 0) {
    throw Error(Code::ReplicaCardinalityZero)
        .note("an expert has more routes than its replicas take");
  }
  if (status.first_bad_gate != plan_device::kNoBadGate) {
    throw Error(Code::GateNotFinite)
        .at("token", status.first_bad_gate / view_.topk)
        .at("route slot", status.first_bad_gate % view_.topk);
  }
}

std::vector<std::uint64_t> CudaPlan::load(const Stream& stream) const {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(view_.experts));
  const DeviceScope scope(tables_.device());
  WAYBILL_CALL(cudaMemcpyAsync(counts.data(), columns_.load, counts.size() * 8,
                               cudaMemcpyDeviceToHost, cuda_stream(stream)));
  stream.synchronize();
  return counts;
}

}  // namespace waybill
