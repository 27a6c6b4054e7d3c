// The report of `plan` for a program.
#include <nlohmann/json.hpp>

#include "ledger_json.h"
#include "plan_result.h"
#include "text.h"

namespace waybill::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t json_matrix_ranks = 256;

Json layer_json(const PlannedLayer& layer, const Layout& layout) {
  Json json = {{"layer", layer.layer.value},
               {"rows", to_json(layer.rows)},
               {"logical_bytes", to_json(layer.bytes)},
               {"live_bytes", to_json(layer.live)},
               {"measured", {{"plan_ns", layer.plan_time.value}}}};
  Json received = Json::array(), send_splits = Json::array(), recv_splits = Json::array();
  for (std::size_t r = 0; r < layer.plans.size(); ++r) {
    received.push_back(layer.receives[r].rows());
    Json splits = Json::array();
    for (std::int32_t p = 0; p < layout.group.size(); ++p) {
      splits.push_back(layer.plans[r].send_count(PeerSlot{p}));
    }
    send_splits.push_back(splits);
    recv_splits.push_back(layer.receives[r].recv_counts());
  }
  json["rank_rows"] = received;
  if (layer.plans.size() <= json_matrix_ranks) {
    json["count_matrix"] = count_matrix(layer, layout.group);
    json["send_splits"] = send_splits;
    json["recv_splits"] = recv_splits;
  }
  return json;
}

}  // namespace

void print_json(const PlanCommand& command, const PlanResult& result) {
  Json layers = Json::array();
  for (const PlannedLayer& layer : result.layers) {
    layers.push_back(layer_json(layer, result.layout));
  }
  Json order = Json::array();
  for (Rank rank : result.layout.group.peer_order()) order.push_back(rank.value);
  write_json({{"routes", result.source},
              {"experts", result.experts},
              {"topk", result.topk},
              {"hidden", result.hidden},
              {"options", to_json(command.step)},
              {"placement", result.layout.generation.version.value},
              {"peer_order", order},
              {"layers", layers}});
}

}  // namespace waybill::cli
