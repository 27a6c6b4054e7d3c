#include <array>

#include "exec/dispatch_state.h"
#include "waybill/error.h"
#include "waybill/layer.h"

namespace waybill {
namespace {

const DispatchState& held(const std::shared_ptr<DispatchState>& state) {
  if (state == nullptr) throw Error(Code::HandleReuse).note("this handle was moved from");
  return *state;
}

}  // namespace

std::string_view name(Phase phase) {
  constexpr std::array<std::string_view, 8> names{"Routed",   "Planned",   "InFlight", "Received",
                                                  "Computed", "Combining", "Returned", "Released"};
  return names[static_cast<std::size_t>(phase)];
}

template <class Stage>
const PlacementVersion& Handle<Stage>::placement() const {
  return held(state_).placement;
}
template <class Stage>
GroupEpoch Handle<Stage>::group_epoch() const {
  return held(state_).group_epoch;
}
template <class Stage>
const HostPlan& Handle<Stage>::plan() const {
  return held(state_).columns.plan;
}

template class Handle<RoutedStage>;
template class Handle<PlannedStage>;
template class Handle<InFlightStage>;
template class Handle<ReceivedStage>;
template class Handle<ComputedStage>;
template class Handle<CombiningStage>;
template class Handle<ReturnedStage>;
template class Handle<ReleasedStage>;

}  // namespace waybill
