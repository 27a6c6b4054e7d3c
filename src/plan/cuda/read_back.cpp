#include "base/cuda/call.h"
#include "plan/cuda/device_plan.h"

namespace waybill {
namespace {

// Readable once the stream has been waited for.
void copy_column(Column& to, const std::int32_t* from, std::int64_t size, const Stream& stream) {
  to.resize(static_cast<std::size_t>(size));
  if (size == 0) return;
  WAYBILL_CALL(cudaMemcpyAsync(to.data(), from, to.size() * sizeof(std::int32_t),
                               cudaMemcpyDeviceToHost, cuda_stream(stream)));
}

}  // namespace

HostPlan CudaPlan::read_back(const Stream& stream) const {
  check(stream);
  const DeviceScope scope(tables_.device());
  HostPlan plan;
  plan.tokens_ = view_.tokens;
  plan.topk_ = view_.topk;
  plan.experts_ = view_.experts;
  plan.peers_ = view_.peers;
  const std::int64_t routes = std::int64_t{view_.tokens} * view_.topk;
  copy_column(plan.key_offsets_, view_.key_offsets, view_.slots + 1, stream);
  copy_column(plan.slot_, view_.slot, routes, stream);
  copy_column(plan.send_position_, view_.send_position, routes, stream);
  copy_column(plan.key_slot_, view_.key_slot, view_.slots, stream);
  copy_column(plan.send_offsets_, view_.send_offsets, view_.peers + 1, stream);
  copy_column(plan.expert_counts_, view_.expert_counts, view_.experts, stream);
  copy_column(plan.peer_key_offsets_, tables_.view().peer_keys, view_.peers + 1, stream);
  stream.synchronize();
  // Only as many rows as the device accepted have been written.
  copy_column(plan.send_order_, view_.send_order, plan.key_offsets_.back(), stream);
  plan.slot_counts_.resize(plan.key_slot_.size());
  for (std::size_t key = 0; key < plan.slot_counts_.size(); ++key) {
    plan.slot_counts_[key] = plan.key_offsets_[key + 1] - plan.key_offsets_[key];
  }
  stream.synchronize();
  return plan;
}

}  // namespace waybill
