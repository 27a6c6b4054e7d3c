// The byte ledgers of the reference text, recomputed from routes, manifest and representation
// (0x03D).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/reference_problem.h"
#include "waybill/ledger.h"

namespace waybill::testing {
namespace {

class ReferenceLedger : public ::testing::Test {
 protected:
  Json expected_ = read_fixture("bytes.json");
  ReferenceProblem problem_ = reference_problem({0, 1, 2, 3});

  RowLedger rows() const {
    std::vector<const HostPlan*> plans;
    for (const Rank rank : problem_.group.peer_order()) {
      plans.push_back(&problem_.plans[rank.index()]);
    }
    return row_ledger(plans, problem_.group);
  }
  Representation representation() const {
    const Json& r = expected_.at("representation");
    const Json& m = expected_.at("metadata");
    return {.hidden = r.at("d"),
            .activation_bytes = r.at("activation_bytes"),
            .output_bytes = r.at("output_bytes"),
            .coordinate_bytes = r.at("coordinate_bytes"),
            .metadata_bytes = r.at("metadata_bytes"),
            .dispatch_fields = m.at("dispatch_fields_per_row"),
            .combine_fields = m.at("combine_fields_per_row"),
            .handle_fields = m.at("handle_fields_per_row"),
            .local_bypass = expected_.at("remote").at("local_bypass")};
  }
  ByteLedger bytes() const {
    return byte_ledger(rows(), representation(), problem_.group.size(),
                       problem_.placement.slots() + problem_.group.size());
  }
};

TEST_F(ReferenceLedger, Rows) {
  const RowLedger r = rows();
  EXPECT_EQ(r.tokens.value, 4);
  EXPECT_EQ(r.routes.value, expected_.at("staging").at("rows"));
  EXPECT_EQ(r.payload, r.routes);
  EXPECT_EQ(r.dropped.value, 0);
  EXPECT_EQ(r.remote.value, expected_.at("remote").at("rows"));
  EXPECT_EQ(r.remote_payload, r.remote);
  EXPECT_EQ(r.local.value, expected_.at("remote").at("local_rows"));
  EXPECT_EQ(r.padded.value, expected_.at("padded").at("row_slots"));
}

TEST_F(ReferenceLedger, RowsDoNotDependOnPeerOrder) {
  const RowLedger identity = rows();
  problem_ = reference_problem({2, 0, 3, 1});
  EXPECT_EQ(rows().remote, identity.remote);
  EXPECT_EQ(rows().padded, identity.padded);
}

TEST_F(ReferenceLedger, Bytes) {
  const ByteLedger b = bytes();
  EXPECT_EQ(b.stage_dispatch.value, expected_.at("staging").at("dispatch"));
  EXPECT_EQ(b.stage_combine.value, expected_.at("staging").at("combine"));
  const Json& remote = expected_.at("remote");
  EXPECT_EQ(b.remote_dispatch.value, remote.at("dispatch_payload"));
  EXPECT_EQ(b.remote_combine.value, remote.at("combine_payload"));
  EXPECT_EQ(b.remote_logical.value, remote.at("logical_total"));
  const Json& metadata = expected_.at("metadata");
  EXPECT_EQ(b.dispatch_metadata.value, metadata.at("dispatch_bytes"));
  EXPECT_EQ(b.combine_metadata.value, metadata.at("combine_bytes"));
  EXPECT_EQ(b.route_handle.value, metadata.at("route_handle_bytes"));
  const Json& tables = expected_.at("tables");
  EXPECT_EQ(b.count_matrix.value, tables.at("count_matrix_bytes"));
  EXPECT_EQ(b.send_offsets.value, tables.at("send_offset_bytes"));
  EXPECT_EQ(b.recv_splits.value, tables.at("recv_split_bytes"));
  EXPECT_EQ(b.local_expert_offsets.value, tables.at("local_expert_offset_bytes"));
  EXPECT_EQ(b.padded_dispatch.value, expected_.at("padded").at("per_direction"));
  EXPECT_EQ((b.padded_dispatch + b.padded_combine).value, expected_.at("padded").at("round_trip"));
}

TEST_F(ReferenceLedger, BuffersEventsAndPeak) {
  const std::vector<Buffer> buffers = step_buffers(rows(), bytes(), representation());
  ASSERT_EQ(buffers.size(), expected_.at("buffers").size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Json& buffer = expected_.at("buffers")[i];
    EXPECT_EQ(buffers[i].name, buffer.at("name"));
    EXPECT_EQ(buffers[i].bytes.value, buffer.at("bytes")) << buffers[i].name;
    EXPECT_EQ(buffers[i].alloc, buffer.at("alloc"));
    EXPECT_EQ(buffers[i].release, buffer.at("release"));
    EXPECT_EQ(buffers[i].release_needs, buffer.at("release_needs"));
    const Json& alias = buffer.at("alias_group");
    EXPECT_EQ(buffers[i].alias_group, alias.is_null() ? "" : alias.get<std::string>());
  }
  const std::vector<PhaseEvent> events = step_events();
  ASSERT_EQ(events.size(), expected_.at("events").size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Json& event = expected_.at("events")[i];
    EXPECT_EQ(events[i].name, event.at("name"));
    EXPECT_EQ(events[i].stream, event.at("stream"));
    EXPECT_EQ(Json(events[i].after), event.at("after"));
    EXPECT_EQ(events[i].epoch, event.at("epoch"));
  }
  const LiveLedger live = live_ledger(buffers, events);
  EXPECT_EQ(live.sum.value, expected_.at("expected").at("sum_bytes"));
  EXPECT_EQ(live.peak.value, expected_.at("expected").at("peak_bytes"));
  EXPECT_EQ(live.peak_epoch, expected_.at("expected").at("peak_epoch"));
  EXPECT_EQ(Json(live.peak_members), expected_.at("expected").at("peak_members"));
  Json by_epoch = Json::object();
  for (std::size_t epoch = 0; epoch < live.by_epoch.size(); ++epoch) {
    by_epoch[std::to_string(epoch)] = live.by_epoch[epoch].value;
  }
  EXPECT_EQ(by_epoch, expected_.at("live_by_epoch"));
}

TEST_F(ReferenceLedger, LargeCase) {
  const Json& large = expected_.at("large_case");
  const std::int64_t routes = large.at("T").get<std::int64_t>() * large.at("k").get<std::int64_t>();
  RowLedger r;
  r.routes = r.payload = Rows{routes};
  r.remote = r.remote_payload = Rows{routes * 3 / 4};
  const ByteLedger b = byte_ledger(r,
                                   {.hidden = large.at("d"),
                                    .activation_bytes = large.at("bytes_per_element"),
                                    .output_bytes = large.at("bytes_per_element")},
                                   4, 10);
  EXPECT_EQ(b.stage_dispatch.value, large.at("one_direction"));
  EXPECT_EQ((b.stage_dispatch + b.stage_combine).value, large.at("round_trip"));
  EXPECT_EQ((b.remote_dispatch + b.remote_combine).value, large.at("remote_round_trip"));
}

}  // namespace
}  // namespace waybill::testing
