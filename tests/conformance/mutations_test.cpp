// One field changed: the program names the contract that broke.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "conformance/check.h"

namespace waybill::conformance {
namespace {

std::string folder() { return std::string(WAYBILL_TEST_DATA) + "/conformance"; }

struct Mutation {
  std::string file, pointer;
  Json to;
  Code code;
};

Code code_named(const std::string& name) {
  Code code{};
  EXPECT_TRUE(find_code(name, code)) << name;
  return code;
}

Report after(const FixtureSet& set, const Mutation& mutation) {
  FixtureSet changed = set;
  Json& value = changed.files().at(mutation.file).at(Json::json_pointer(mutation.pointer));
  EXPECT_NE(value, mutation.to) << mutation.pointer;
  value = mutation.to;
  return check_set(changed);
}

void expect_caught(const FixtureSet& set, const Mutation& mutation) {
  const Report report = after(set, mutation);
  EXPECT_TRUE(report.has(mutation.code))
      << mutation.file << "#" << mutation.pointer << " -> " << mutation.to << ": expected "
      << name(mutation.code) << "\n"
      << report.text();
}

TEST(Conformance, TheUnchangedSetIsClean) {
  const Report report = check_set(FixtureSet::read(folder()));
  EXPECT_TRUE(report.violations().empty()) << report.text();
}

// The mutations that come with the set, of the loops whose files are checked.
TEST(Conformance, EveryMutationOfTheSetIsCaught) {
  const FixtureSet set = FixtureSet::read(folder());
  std::size_t tried = 0;
  for (const Json& mutation : set.files().at("failures.json").at("mutations")) {
    const int loop = mutation.at("loop");
    if (loop > 4 && loop != 8) continue;
    const std::string place = mutation.at("json_pointer");
    const std::size_t hash = place.find('#');
    expect_caught(set, {place.substr(0, hash), place.substr(hash + 1), mutation.at("to"),
                        code_named(mutation.at("expected_error"))});
    ++tried;
  }
  EXPECT_GE(tried, 60U);
}

// More of each kind. Values may be whole vectors.
TEST(Conformance, EachKindOfMutationHasItsCode) {
  using enum Code;
  const std::string group = "expert_output_return_payload";
  const std::map<std::string, std::vector<std::tuple<std::string, Json, Code>>> mutations{
      {"identity.json",
       {{"/semantic_digest/sha256", "00", SemanticDigestMismatch},
        {"/namespaces/2/fixture/3", "e1-r2", ReplicaIdMismatch},
        {"/namespaces/5/fixture/0", "placement-v18", GenerationMismatch}}},
      {"routes.json",
       {{"/routes/2/slot", "q3", SlotOutsideReplicaSet},
        {"/routes/2/slot", "q9", SlotOutsideReplicaSet},
        {"/routes/2/slot", "q0", DestinationRankMismatch},
        {"/routes/2/replica", "e0-r0", ReplicaIdMismatch},
        {"/routes/2/destination_rank", 0, DestinationRankMismatch},
        {"/routes/2/destination_rank", 9, RankOutsideGroup},
        {"/routes/2/token", 0, RouteIdentityCollision},
        {"/routes/2/id", "r01", RouteIdentityCollision},
        {"/routes/2/domain", "node-1", DomainRankMismatch},
        {"/routes/2/checkpoint", "checkpoint-0041", CheckpointMismatch},
        {"/routes/2/placement", "placement-v18", GenerationMismatch},
        {"/routes/2/process_group", "ep-group-1", ProcessGroupMismatch},
        {"/routes/2/gate", 0.71, SemanticDigestMismatch},
        {"/router_tensors/topk_ids/p0/1/0", 3, SemanticDigestMismatch},
        {"/process_group/member_ranks", {0, 1}, RankOutsideGroup},
        {"/shape/R", 6, RouteCountMismatch},
        {"/outputs/1/row/0", 1.4, CombineMismatch},
        {"/expert_rows/3/row/2", 400, CombineMismatch},
        {"/partial_sums_that_must_not_be_accepted/p1.t0_without_r05/0", 822, CombineMismatch}}},
      {"placement_v17.json",
       {{"/slots/1/domain", "node-1", DomainRankMismatch},
        {"/slots/1/id", "q0", DuplicateSlotId},
        {"/slots/0/rank", 1, DestinationRankMismatch},
        {"/slots/5/logical_expert", 2, ReplicaCardinalityZero},
        {"/slots/5/replica", "e3-r7", ReplicaIdMismatch},
        {"/logical_experts", 5, LogicalCountMismatch},
        {"/ranks", 5, RankCountMismatch},
        {"/domains/node-0/1", 2, DomainNotPartition},
        {"/rho/0/1", "q2", SlotOutsideReplicaSet},
        {"/slots_by_rank/1", {"q2", "q1"}, LocalSlotOrderMismatch},
        {"/expected/slot_counts/q1", 3, SlotCountMismatch},
        {"/expected/total", 7, RouteConservationMismatch},
        {"/predicate/cases/1/ok", false, LogicalExpertMismatch},
        {"/states/DRAINING/new_dispatch", true, GenerationNotActive},
        {"/states/RETIRED/pinned_combine", true, GenerationNotLive},
        {"/in_flight_refcount", 0, RefcountMismatch},
        {"/fence/steps/6/v17_refcount", 1, RefcountMismatch},
        {"/fence/steps/4/error", "GenerationMismatch", RetireWithLiveReferences},
        {"/fence/probes/4/verdict", "allowed", GenerationMismatch},
        {"/fence/probes/3/verdict", "allowed", GenerationNotActive},
        {"/fence/probes/6/verdict", "allowed", HandleReleasedTwice},
        {"/fence/probes/2/expected_generation", 17, GenerationMismatch}}},
      {"dispatch.json",
       {{"/count_matrix", {{1, 2}, {1, 1}}, GroupShapeMismatch},
        {"/recv_splits/2", Json::array(), GroupShapeMismatch},
        {"/send_offsets/0", {0, 1, 3, 4}, SendOffsetMismatch},
        {"/send_order/0", {"r00", "r01", "r02", "r03"}, SendOrderMismatch},
        {"/tie_case/send_order/0", {"r02", "r00", "r01", "r03"}, SendOrderMismatch},
        {"/tie_case/expert_segments/1/segments/0/rows/0", "r02", ExpertOrderMismatch},
        {"/recv_splits/1", {1, 1, 1, 1}, RecvSplitMismatch},
        {"/receive_order/1", {"r07", "r02", "r01"}, ReceiveOrderMismatch},
        {"/expert_segments/2/segments/0/slot", "q4", LocalSlotOrderMismatch},
        {"/expert_segments/1/counts/0", 1, SlotCountMismatch},
        {"/expert_segments/1/counts/0", 1, ExpertOffsetMismatch},
        {"/expert_order/1", {"r02", "r01", "r07"}, ExpertOrderMismatch},
        {"/round_trip/3", "r04", RoundTripMismatch},
        {"/return_path/return_send_splits/0/0", 2, RoundTripMismatch},
        {"/combine/0/row/0", 1.36, CombineMismatch},
        {"/padded_all_to_all/padding", 23, PaddedCapacityMismatch},
        {"/peer_slot_variant/send_counts/0", {1, 2, 1, 0}, SplitVectorMismatch},
        {"/peer_slot_variant/peer_order", {0, 1, 2, 3}, SplitVectorMismatch}}},
      {"bytes.json",
       {{"/staging/combine", 36, StageBytesMismatch},
        {"/remote/local_rows", 3, RemoteRowMismatch},
        {"/remote/remote_routes/0", "r00", RemoteRowMismatch},
        {"/remote/combine_payload", 48, RemotePayloadMismatch},
        {"/metadata/dispatch_bytes", 64, MetadataBytesMismatch},
        {"/metadata/combine_fields_per_row", 2, MetadataBytesMismatch},
        {"/tables/entries_by_rank/1", 2, TableBytesMismatch},
        {"/buffers/7/release", 3, EarlyRelease},
        {"/buffers/13/release", 9, EarlyRelease},
        {"/buffers/6/alloc", 0, PeakMismatch},
        {"/buffers/8/release", 6, PeakMismatch},
        {"/buffers/9/release_needs", "dispatch_complete", EarlyRelease},
        {"/buffers/12/alias_group", group, AliasOverlap},
        {"/buffers/0/formula", "4*3*4", BufferBytesMismatch},
        {"/live_by_epoch/4", 905, PeakMismatch},
        {"/expected/sum_bytes", 904, PeakMismatch},
        {"/expected/peak_epoch", 5, PeakMismatch},
        {"/events/3/after", {"dispatch_completed"}, MissingDependency},
        {"/events/6/epoch", 7, EpochBeforeDependency},
        {"/padded/per_direction", 48, PaddedCapacityMismatch},
        {"/large_case/round_trip", 100663296, StageBytesMismatch},
        {"/large_case/remote_fraction", "1/2", RemotePayloadMismatch},
        {"/representation/activation_dtype", "fp32", DtypeRoleMismatch}}},
      {"two_rank_trace.json",
       {{"/routes/4/source_rank", 0, RouteIdentityCollision},
        {"/routes/4/destination_rank", 0, DestinationRankMismatch},
        {"/owners/1", 0, DestinationRankMismatch},
        {"/key_collisions/0/distinct", 4, RouteIdentityCollision},
        {"/key_collisions/1/verdict", "accepted", RouteIdentityCollision},
        {"/key_collisions/2/verdict", "rejected", RouteIdentityCollision},
        {"/sent_remote/0", 4, RemoteRowMismatch},
        {"/demo_values/expected_percent/0.1", 160, CombineMismatch}}},
      {"topology.json",
       {{"/nodes/0/members/1", 2, DomainNotPartition},
        {"/ranks/1/domain", "nvlink-domain-1", DomainNotPartition},
        {"/ranks/1/gpu_local_rank", 0, DomainNotPartition},
        {"/ranks/1/nic_via", nullptr, NicOwnershipMismatch},
        {"/nics/0/node", "node-1", NicOwnershipMismatch},
        {"/nics/0/direct_rank", 1, NicOwnershipMismatch},
        {"/ranks/1/relay", true, RelayNotMember},
        {"/ranks/0/relay", false, RelayNotMember},
        {"/groups/0/peer_order/0", 1, GroupShapeMismatch},
        {"/groups/2/peer_order", {3, 2, 1}, LocalGroupCrossesNode},
        {"/groups/1/peer_order", {1}, LocalGroupCrossesNode},
        {"/groups/3/peer_order", {2, 0, 1}, RelayGroupHasNonRelay},
        {"/collective_epoch", 13, CollectiveEpochMismatch},
        {"/handle_binding/collective_epoch", 11, CollectiveEpochMismatch},
        {"/send_splits/0", {1, 2, 1, 0}, SplitVectorMismatch},
        {"/peer_slot_of_rank/2", 1, SplitVectorMismatch},
        {"/recv_splits", {{0, 1}, {0, 2}}, GroupShapeMismatch},
        {"/count_matrix_global/0/0", 2, CountMatrixMismatch},
        {"/class_counts/same_gpu", 3, RouteClassMismatch},
        {"/fractions/inter", "5/8", RouteClassMismatch},
        {"/flat/intra/round_trip_bytes", 18, FlatLedgerMismatch},
        {"/flat/inter/pairs/0", {0, 3}, FlatLedgerMismatch},
        {"/hierarchical/routes/r04/hops/2/to", 2, StageChangesFinalRank},
        {"/hierarchical/routes/r04/hops/0/group", "ep-node-1", RelayLedgerMismatch},
        {"/hierarchical/combine/2/bytes", 6, RelayLedgerMismatch},
        {"/hierarchical/added_relay_moves", 0, RelayLedgerMismatch},
        {"/hierarchical/flat_inter_directed_pairs", 2, RelayLedgerMismatch},
        {"/hierarchical/group_splits/ep-relays exchange/0/0", 2, SplitVectorMismatch},
        {"/evidence/latency", "12 us", UnsupportedClaim}}}};
  const FixtureSet set = FixtureSet::read(folder());
  for (const auto& [file, list] : mutations) {
    for (const auto& [pointer, to, code] : list) expect_caught(set, {file, pointer, to, code});
  }
}

// What no schema allows is a violation too, and never a crash.
TEST(Conformance, ValuesOfAnotherKindAreViolations) {
  FixtureSet set = FixtureSet::read(folder());
  set.files().erase("failures.json");
  for (const auto& [file, document] : set.files()) {
    for (const auto& [key, value] : document.items()) {
      for (const Json& other : {Json(), Json(-1), Json("x"), Json::array({Json::object()}),
                                Json::object({{"x", 1}}), Json(1e300)}) {
        FixtureSet changed = set;
        changed.files().at(file)[key] = other;
        check_set(changed);
      }
    }
    FixtureSet empty = set;
    empty.files().at(file) = {{"schema", document.at("schema")}};
    EXPECT_FALSE(check_set(empty).violations().empty()) << file;
  }
}

TEST(Conformance, WhatIsNotCoveredIsListed) {
  FixtureSet set = FixtureSet::read(folder());
  set.add("later.json", {{"schema", "moe-conformance/later/1"}});
  set.add("routes-2.json", {{"schema", "moe-conformance/routes/2"}});
  set.files().erase("placement_v17.json");
  const std::vector<std::string> unchecked = check_set(set).unchecked();
  for (const std::string file : {"later.json", "routes-2.json", "dispatch.json", "identity.json"}) {
    EXPECT_TRUE(std::any_of(unchecked.begin(), unchecked.end(), [&](const std::string& what) {
      return what.starts_with(file);
    })) << file;
  }
}

}  // namespace
}  // namespace waybill::conformance
