// What a wb_runtime is: the ranks of one process, each with its layer and the step it has under
// way.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "waybill/comm.h"
#include "waybill/layer.h"
#include "waybill/waybill.h"

namespace waybill::c_api {

// A rank has one step under way, so {index, generation} is {rank, number of the step}; the upper
// half of the index names the runtime.
class RankRuntime {
 public:
  using Step = std::variant<std::monostate, Planned, InFlight>;

  RankRuntime(std::uint32_t index, std::unique_ptr<Communicator> comm, const LayerOptions& options,
              PlacementRegistry& registry, const Topology& topology, const ExpertSource& experts);

  MoeLayer& layer() { return layer_; }
  wb_handle begin(Planned planned);
  void advance(InFlight in_flight) { step_ = std::move(in_flight); }
  // Takes the step out of the handle, which ends it unless advance() follows: HandleUnknown
  // (another runtime's or rank's, or made up), HandleReleased (used up), HandleTypeMismatch
  // (another stage).
  template <class Stage>
  Stage take(wb_handle handle);
  void release(wb_handle handle);

 private:
  void require_live(wb_handle handle) const;

  const std::uint32_t index_;
  std::uint32_t generation_ = 0;
  const std::unique_ptr<Communicator> comm_;
  MoeLayer layer_;
  Step step_;
};

}  // namespace waybill::c_api

struct wb_runtime {
  wb_runtime(const wb_runtime_options& options, const wb_expert_weights* weights);

  waybill::c_api::RankRuntime& on(std::int32_t rank);
  const waybill::LayerOptions& options() const { return options_; }

 private:
  const waybill::LayerOptions options_;
  waybill::PlacementRegistry registry_;
  waybill::LocalGroup group_;
  std::vector<std::unique_ptr<waybill::c_api::RankRuntime>> ranks_;
};
