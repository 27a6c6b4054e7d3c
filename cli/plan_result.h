// What `plan` worked out, before it is printed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "step_options.h"
#include "waybill/checkpoint.h"
#include "waybill/ledger.h"
#include "waybill/plan.h"
#include "waybill/routes.h"

namespace waybill::cli {

struct PlanCommand {
  StepOptions step;
  std::string routes;  // "": from the checkpoint's router
  std::int64_t experts = 0, topk = 0;
  std::int64_t hidden = 4096;  // of synthetic rows, for the byte ledger
  std::string route;           // tell this one's journey
};

// One layer of all ranks; every vector is indexed by rank.
struct PlannedLayer {
  LayerId layer;
  std::vector<std::int64_t> first_token;  // [P+1]
  std::vector<Routes> routes;
  std::vector<HostPlan> plans;
  std::vector<ReceivePlan> receives;
  RowLedger rows;
  ByteLedger bytes;
  LiveLedger live;
  Nanoseconds plan_time;  // measured, of the slowest rank
};

struct PlanResult {
  std::string source;  // of the routes, for the reader
  std::int32_t experts = 0, topk = 0;
  std::int64_t hidden = 0;
  Layout layout;
  std::vector<PlannedLayer> layers;
};

// [P, P] rows from source to destination, both in rank order.
std::vector<std::vector<std::int64_t>> count_matrix(const PlannedLayer& layer,
                                                    const ProcessGroup& group);

// Where one route goes and how it comes back.
struct Journey {
  std::int64_t route = 0;  // token * k + route slot over all ranks
  std::int64_t token = 0;
  RouteSlot route_slot;
  Rank origin;
  TokenRow token_row;
  ExpertId expert;
  float gate = 0;
  bool dropped = false;  // nothing below is set then
  SlotId slot;
  std::string slot_name, replica;
  Rank destination;
  NodeId origin_node, destination_node;
  PeerSlot destination_peer, origin_peer;  // of each other's send and receive splits
  std::int32_t send_position = 0;          // row of the origin's send buffer
  std::int32_t receive_position = 0;       // row of the destination's receive buffer
  std::int32_t local_slot = 0;
  std::int32_t expert_row = 0;  // row of the destination's expert-major buffer
};

// "r05" or "5". InvalidValue when the layer has no such route.
Journey trace(const PlannedLayer& layer, const Layout& layout, std::int32_t topk,
              const std::string& route);

void print_text(const PlanCommand& options, const PlanResult& result);
void print_json(const PlanCommand& options, const PlanResult& result);
void print_text(const PlannedLayer& layer, const Journey& journey);
void print_json(const PlannedLayer& layer, const Journey& journey);

}  // namespace waybill::cli
