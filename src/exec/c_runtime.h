// What a wb_runtime is: the ranks of one process, each with its layer and the step it has under
// way.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "waybill/comm.h"
#include "waybill/layer.h"
#include "waybill/waybill.h"

namespace waybill::c_api {

// A rank has one step under way. A handle's index is the number of the runtime and the rank, its
// generation the number of the rank's step: 64 bits each, so that none is ever used again.
//
// What is refused for an argument leaves the step as it is; what fails later ends it.
class RankRuntime {
 public:
  RankRuntime(std::uint64_t index, std::unique_ptr<Communicator> comm, const LayerOptions& options,
              PlacementRegistry& registry, const Topology& topology, const ExpertSource& experts);

  // PairedStateOverwritten while a step is under way.
  wb_handle plan(const RoutesView& routes);
  // These throw HandleUnknown (another runtime's or rank's handle, or made up), HandleReleased
  // (used up) and HandleTypeMismatch (another stage's); and what check_rows() throws.
  void dispatch(wb_handle handle, const TensorView& hidden);
  void combine(wb_handle handle, const TensorView& output, const TensorView* shared);
  void release(wb_handle handle);
  // The one call that any thread may make.
  void abort(std::string_view reason);

 private:
  using Step = std::variant<std::monostate, Planned, InFlight>;

  void require_live(wb_handle handle) const;
  // The step that the handle names, once it is known to be at that stage.
  template <class Stage>
  const Stage& held(wb_handle handle) const;
  // The same, out of the handle: the step ends unless its next stage follows.
  template <class Stage>
  Stage take();
  void check(const TensorView& rows, std::string_view tensor, std::int32_t tokens,
             std::initializer_list<DType> dtypes) const;

  const std::uint64_t index_;
  std::uint64_t generation_ = 0;
  const std::unique_ptr<Communicator> comm_;
  const LayerOptions options_;
  MoeLayer layer_;
  Step step_;
};

}  // namespace waybill::c_api

struct wb_runtime {
  wb_runtime(const wb_runtime_options& options, const wb_expert_weights* weights);

  waybill::c_api::RankRuntime& on(std::int32_t rank);

 private:
  const waybill::LayerOptions options_;
  waybill::PlacementRegistry registry_;
  waybill::LocalGroup group_;
  std::vector<std::unique_ptr<waybill::c_api::RankRuntime>> ranks_;
};
