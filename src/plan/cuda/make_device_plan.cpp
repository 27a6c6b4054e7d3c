#include <utility>

#include "plan/cuda/device_plan.h"

namespace waybill {
namespace {

struct Owned {
  explicit Owned(DevicePlanTables&& made, std::int32_t max_tokens)
      : owned_tables(std::move(made)),
        owned_memory(owned_tables.device(), CudaPlan::workspace_bytes(owned_tables, max_tokens)) {}
  DevicePlanTables owned_tables;
  Workspace owned_memory;
};

// A plan with the tables and the memory that it works on; they are made first and go last.
class OwningPlan final : private Owned, public CudaPlan {
 public:
  OwningPlan(DevicePlanTables&& tables, std::int32_t max_tokens)
      : Owned(std::move(tables), max_tokens), CudaPlan(owned_tables, max_tokens, owned_memory) {}
};

}  // namespace

std::unique_ptr<DevicePlan> make_device_plan(const SelectionTable& table,
                                             const Placement& placement, const ProcessGroup& group,
                                             Rank source, std::int32_t topk,
                                             std::int32_t max_tokens, Device device) {
  return std::make_unique<OwningPlan>(
      DevicePlanTables(table, placement, group, source, topk, device), max_tokens);
}

}  // namespace waybill
