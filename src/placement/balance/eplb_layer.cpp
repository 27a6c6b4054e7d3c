#include "placement/balance/eplb_layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "placement/balance/index.h"
#include "waybill/error.h"

namespace waybill {
namespace {

[[noreturn]] void refuse(std::string_view field, std::int32_t rank, std::string_view expected,
                         double found) {
  throw Error(Code::InvalidValue)
      .at("solver", "eplb")
      .at("rank", rank)
      .at("field", field)
      .expected(expected)
      .found(found)
      .note("solver waybill takes unequal ranks");
}

void check_equal_ranks(const LayerProblem& frame) {
  const std::int32_t per_node = frame.ranks() / frame.nodes;
  for (std::int32_t p = 0; p < frame.ranks(); ++p) {
    if (frame.slots_on(p) != frame.slots_on(0)) {
      refuse("slots", p, fmt::format("{} as on rank 0", frame.slots_on(0)), frame.slots_on(p));
    }
    if (frame.speed[at(p)] != frame.speed[0])
      refuse("speed", p, "the speed of rank 0", frame.speed[at(p)]);
    if (per_node * frame.nodes != frame.ranks() || frame.node[at(p)] != p / per_node) {
      refuse("node", p, fmt::format("{} ranks on each node, in order", per_node),
             frame.node[at(p)]);
    }
  }
}

}  // namespace

EplbPlan eplb_plan(const LoadMatrix& load, const LayerProblem& frame,
                   const BalanceOptions& options) {
  check_equal_ranks(frame);
  std::vector<float> weight;
  for (std::size_t i = 0; i < load.layers().size(); ++i) {
    for (double value : load.total(i)) weight.push_back(static_cast<float>(value));
  }
  const bool global = options.locality == Locality::none;
  const EplbShape shape{frame.slots(), global ? 1 : options.groups, global ? 1 : frame.nodes,
                        frame.ranks()};
  return eplb(weight, static_cast<std::int32_t>(load.layers().size()), load.experts(), shape);
}

SlotLists eplb_lists(const EplbPlan& plan, std::size_t layer, std::int32_t ranks) {
  SlotLists lists(at(ranks));
  const std::size_t slots = at(plan.replicas), per_rank = slots / at(ranks);
  for (std::size_t s = 0; s < slots; ++s) {
    lists[s / per_rank].push_back(plan.phy2log[layer * slots + s]);
  }
  return lists;
}

}  // namespace waybill
