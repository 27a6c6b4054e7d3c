// The hierarchical half of topology.json: hops of each route, stages, pairs and the split vectors
// of node-local and relay groups (reference text 0x07E).
#pragma once

#include "conformance/check.h"
#include "waybill/exchange_ledger.h"
#include "waybill/topology_manifest.h"

namespace waybill::conformance {

struct RelayPart {
  Check& check;
  Value stated;
  const std::vector<GroupRecord>& groups;
  const std::vector<Rank>& relays;  // by node
  const Topology& topology;
  const CountMatrix& counts;
};

Json pairs_of(const std::vector<RankPair>& pairs);

void check_relay_ledger(const RelayPart& part, const FlatLedger& flat, std::int64_t row_bytes);
void check_relay_route(const RelayPart& part, const std::string& route, Rank source,
                       Rank destination);
void check_relay_splits(const RelayPart& part);

}  // namespace waybill::conformance
