// Every row of the reference text's failure tables for 0x01 to 0x03, provoked through the library:
// the row's error comes, with the coordinates of the fault.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "conformance/check.h"
#include "exec/layer_case.h"
#include "support/fault.h"
#include "waybill/comm.h"
#include "waybill/layer.h"
#include "waybill/ledger.h"
#include "waybill/registry.h"

namespace waybill::conformance {
namespace {

using testing::fault;

// The eight routes on the six slots of placement-v17.
class Fixture {
 public:
  Fixture()
      : set_(FixtureSet::read(std::string(WAYBILL_TEST_DATA) + "/conformance")),
        problem(read_problem(set_)),
        trace(problem, ProcessGroup::identity(4)) {}

  // The manifest after one change, read as the product reads it.
  void read_manifest_with(const std::string& pointer, const Json& value) const {
    Json manifest = set_.files().at("placement_v17.json");
    manifest.at(Json::json_pointer(pointer)) = value;
    const std::array layers{LayerId{0}};
    parse_placement_manifest(manifest.dump(), "manifest", 4, 4, layers, &topology);
  }
  const Placement& placement() const { return *problem.placement; }
  RoutesView routes(std::int32_t rank) const {
    return problem.origins[static_cast<std::size_t>(rank)].routes(problem.topk);
  }
  // Plans rank's routes with one of them assigned to another slot.
  void plan_with(std::int32_t rank, std::size_t route, std::int32_t slot) const {
    Counts assigned = problem.origins[static_cast<std::size_t>(rank)].assigned;
    assigned[route] = slot;
    build_plan(routes(rank), assigned, placement(), trace.group(), Rank{rank});
  }
  void check_rank_0(const PlanView& plan) const {
    check_plan(plan, routes(0), placement(), trace.group());
  }

 private:
  FixtureSet set_;

 public:
  const Topology topology = Topology::uniform(4, 2);
  const Problem problem;
  const Trace trace;
};

const CheckpointVersion checkpoint("checkpoint-0042");
const PlacementVersion v17("placement-v17"), v18("placement-v18");

void rank_outside_the_group(const Fixture& f) {
  std::vector<Slot> slots;
  for (std::int32_t q = 0; q < f.placement().slots(); ++q) {
    slots.push_back(f.placement().slot(SlotId{q}));
  }
  for (const std::int32_t rank : {3, 4, 5, 6}) {
    const std::string name = "extra-" + std::to_string(rank);
    slots.push_back(
        {name, ExpertId{0}, name, Rank{rank}, "", checkpoint, slots[0].parameter_digest});
  }
  slots[5].rank = Rank{7};
  const Placement wide(v17, 4, 8, std::move(slots));
  check_compatible(ExpertId{3}, checkpoint, SlotId{5}, wide, f.trace.group(), f.topology);
}

void edited_after_the_digest(const Fixture& f) {
  const std::string frozen = semantic_digest("scope-0", Rank{0}, f.routes(0));
  Counts experts = f.problem.origins[0].experts;
  experts[2] = 1;  // r02
  RoutesView edited = f.routes(0);
  edited.experts = experts;
  check_semantic_digest("scope-0", Rank{0}, edited, frozen);
}

// placement-v17 with one handle, and its successor serving.
struct Superseded {
  Superseded() {
    for (const PlacementVersion& version : {v17, v18}) {
      registry.load(generation_of_four(version));
      registry.activate(version);
      if (version == v17) handle = registry.acquire(v17);
    }
  }
  static Generation generation_of_four(const PlacementVersion& version) {
    Generation generation;
    generation.version = version;
    generation.layers.emplace(
        LayerId{0}, std::make_shared<const Placement>(Placement::contiguous(version, 4, 4)));
    return generation;
  }

  PlacementRegistry registry;
  Lease handle;
};

void with_changed_column(const Fixture& f, std::span<const std::int32_t> column,
                         const std::int32_t* PlanView::*member,
                         const std::function<void(Counts&)>& change) {
  Counts changed(column.begin(), column.end());
  change(changed);
  PlanView view = f.trace.plan(0).view();
  view.*member = changed.data();
  f.check_rank_0(view);
}

void receive_read_as_expert_major(const Fixture& f) {
  Counts counts;
  for (const Rank source : f.trace.group().peer_order()) {
    const auto sent = f.trace.plan(source.value).slot_counts(PeerSlot{1});
    counts.insert(counts.end(), sent.begin(), sent.end());
  }
  ReceiveView view = f.trace.receive(1).view();
  const Counts as_they_arrive{0, 1, 2};
  view.expert_order = as_they_arrive.data();
  check_receive_plan(view, counts, 2, f.trace.group());
}

// Rank 1 takes its own row of the count matrix for the column of what it receives.
void split_matrix_not_transposed(const Fixture& f) {
  const auto offsets = [](const Counts& counts) {
    std::vector<std::int64_t> sums{0};
    for (const std::int32_t count : counts) sums.push_back(sums.back() + count);
    return sums;
  };
  LocalGroup group(f.trace.group());
  group.run([&](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank().value);
    const auto send = offsets(f.trace.send_counts()[rank]);
    const auto recv =
        offsets(rank == 1 ? f.trace.send_counts()[rank] : f.trace.recv_counts()[rank]);
    std::vector<std::byte> out(16), in(16);
    comm.all_to_all_v({"dispatch", out.data(), send, in.data(), recv}).wait();
  });
}

void key_without(const Fixture& f, bool origin, bool slot) {
  std::vector<RouteIdentity> rows;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    const RoutesView routes = f.routes(rank);
    for (std::int32_t r = 0; r < routes.size(); ++r) {
      rows.push_back({Rank{origin ? 0 : rank}, routes.token(RouteId{r}),
                      slot ? RouteSlot{0} : routes.slot(RouteId{r})});
    }
  }
  check_route_identities(rows);
}

// The fourteen buffers and eight events of the step, one of them changed.
void lifetimes_with(
    const std::function<void(std::vector<Buffer>&, std::vector<PhaseEvent>&)>& change) {
  std::vector<Buffer> buffers = step_buffers({}, {}, {});
  std::vector<PhaseEvent> events = step_events();
  change(buffers, events);
  live_ledger(buffers, events);
}

void release_at(std::size_t buffer, std::int64_t epoch) {
  lifetimes_with([&](std::vector<Buffer>& buffers, auto&) { buffers[buffer].release = epoch; });
}

// A step is between its return exchange and the scatter of its rows when its generation retires.
void generation_retired_in_flight() {
  testing::LayerCase c;
  c.options.hidden = c.options.experts = c.options.topk = 1;
  c.placement = std::make_shared<const Placement>(Placement::contiguous(v17, 1, 1));
  c.tokens_per_rank = {1};
  c.experts = {0};
  c.gates = {1};
  c.hidden = {5};
  c.source = testing::scaling_experts({2}, 1, DType::f32);
  PlacementRegistry registry;
  testing::load_and_activate(registry, c);
  LocalGroup group(c.group);
  const auto comm = group.join(Rank{0});
  MoeLayer layer(c.options, *comm, registry, c.topology, c.source, testing::make_scaling_runner());
  testing::RankStep step(c, Rank{0});
  InFlight sent = layer.dispatch(layer.plan(layer.begin(step.routes())), step.hidden());
  Computed computed = layer.compute(layer.receive(std::move(sent)));
  const Returned returned = layer.collect(layer.give_back(std::move(computed)));
  c.placement = std::make_shared<const Placement>(Placement::contiguous(v18, 1, 1));
  testing::load_and_activate(registry, c, 2);
  registry.retire(v17);
}

struct Row {
  std::function<void(const Fixture&)> provoke;
  std::vector<std::pair<std::string, std::string>> coordinates;
};

std::int32_t* find(Counts& column, std::int32_t value) {
  return &*std::find(column.begin(), column.end(), value);
}

const std::map<std::string, Row>& rows() {
  using B = std::vector<Buffer>;
  using E = std::vector<PhaseEvent>;
  static const std::map<std::string, Row> table{
      {"place-01",
       {[](const Fixture& f) {
          check_compatible(ExpertId{0}, checkpoint, SlotId{2}, f.placement(), f.trace.group(),
                           f.topology);
        },
        {{"slot", "q2"}, {"rank", "1"}}}},
      {"place-02",
       {[](const Fixture& f) { f.read_manifest_with("/slots/1/checkpoint", "checkpoint-0041"); },
        {{"file", "manifest"}, {"field", "slots[1].checkpoint"}}}},
      {"place-03", {rank_outside_the_group, {{"slot", "q5"}, {"rank", "7"}}}},
      {"place-04",
       {[](const Fixture& f) { f.read_manifest_with("/slots/3/domain", "node-0"); },
        {{"slot", "q3"}, {"rank", "2"}}}},
      {"place-05",
       {[](const Fixture& f) { f.plan_with(0, 3, -1); }, {{"token", "1"}, {"route slot", "1"}}}},
      {"place-06",
       {[](const Fixture& f) {
          check_cardinality(RouteId{2}, ExpertId{0}, std::array{SlotId{0}, SlotId{1}},
                            f.placement());
        },
        {{"route", "2"}, {"expert", "0"}}}},
      {"place-07",
       {[](const Fixture& f) { f.plan_with(1, 3, 3); }, {{"token", "1"}, {"route slot", "1"}}}},
      {"place-08", {edited_after_the_digest, {{"origin_rank", "0"}}}},
      {"place-09",
       {[](const Fixture& f) {
          f.read_manifest_with("/slots/1/parameter_digest", "expert-0-state-v41");
        },
        {{"slot", "q1"}, {"expert", "0"}}}},
      {"place-10",
       {[](const Fixture&) { Superseded().handle.require(v18); }, {{"placement", v17.value}}}},
      {"place-11",
       {[](const Fixture&) { Superseded().registry.retire(v17); }, {{"placement", v17.value}}}},
      {"place-12",
       {[](const Fixture&) { Superseded().registry.acquire(v17); }, {{"placement", v17.value}}}},
      {"disp-01",
       {[](const Fixture& f) {
          PlanView view = f.trace.plan(0).view();
          view.peers = 2;
          f.check_rank_0(view);
        },
        {{"column", "peers"}}}},
      {"disp-02",
       {[](const Fixture& f) {
          with_changed_column(f, f.trace.plan(0).send_offsets(), &PlanView::send_offsets,
                              [](Counts& offsets) { offsets.back() = 0; });
        },
        {{"column", "send_offsets"}, {"index", "4"}}}},
      {"disp-03",
       {[](const Fixture& f) {
          with_changed_column(f, f.trace.plan(0).send_order(), &PlanView::send_order,
                              [](Counts& order) { std::swap(*find(order, 2), *find(order, 1)); });
        },
        {{"column", "send_order"}, {"index", "1"}}}},
      {"disp-04", {receive_read_as_expert_major, {{"column", "expert_order"}, {"index", "1"}}}},
      {"disp-05", {split_matrix_not_transposed, {{"rank", "1"}, {"phase", "dispatch"}}}},
      {"disp-06",
       {[](const Fixture& f) {
          with_changed_column(f, f.trace.plan(0).key_slot(), &PlanView::key_slot,
                              [](Counts& keys) { std::swap(keys[3], keys[4]); });
        },
        {{"column", "key_slot"}, {"index", "3"}}}},
      {"disp-07",
       {[](const Fixture& f) { key_without(f, true, true); },
        {{"origin rank", "0"}, {"token", "0"}}}},
      {"disp-08", {[](const Fixture& f) { key_without(f, false, true); }, {{"token", "0"}}}},
      {"life-01",
       {[](const Fixture&) { release_at(5, 2); },
        {{"buffer", "packed send payload"}, {"needs", "dispatch_complete"}}}},
      {"life-02",
       {[](const Fixture&) { release_at(7, 3); },
        {{"buffer", "source-major receive"}, {"needs", "expert_input_ready"}}}},
      {"life-03",
       {[](const Fixture&) { release_at(10, 5); },
        {{"buffer", "expert output / return payload"}, {"needs", "combine_complete"}}}},
      {"life-04",
       {[](const Fixture&) { generation_retired_in_flight(); }, {{"placement", v17.value}}}},
      {"life-05",
       {[](const Fixture&) { release_at(1, 7); },
        {{"buffer", "immutable route handle"}, {"needs", "handle_released"}}}},
      {"life-06",
       {[](const Fixture&) { lifetimes_with([](B&, E& events) { events[5].after.clear(); }); },
        {{"event", "combine_complete"}}}},
      {"life-07",
       {[](const Fixture&) {
          lifetimes_with([](B&, E& events) { events[2].after.push_back("output_ready"); });
        },
        {{"event", "dispatch_complete"}}}},
      {"life-08",
       {[](const Fixture&) { lifetimes_with([](B&, E& events) { events[5].epoch = 4; }); },
        {{"event", "combine_complete"}, {"after", "expert_complete"}}}},
      {"life-09",
       {[](const Fixture&) {
          lifetimes_with([](B& buffers, E&) { buffers[12].alias_group = buffers[10].alias_group; });
        },
        {{"buffer", "expert output / return payload"}, {"and", "returned source-order rows"}}}},
  };
  return table;
}

bool is_of_0x01_to_0x03(const std::string& section) {
  return section.starts_with("0x01") || section.starts_with("0x02") || section.starts_with("0x03");
}

TEST(FailureRows, EachGivesItsErrorAtItsPlace) {
  const Fixture fixture;
  const FixtureSet set = FixtureSet::read(std::string(WAYBILL_TEST_DATA) + "/conformance");
  std::size_t walked = 0;
  for (const Json& row : set.files().at("failures.json").at("rows")) {
    if (!is_of_0x01_to_0x03(row.at("section"))) continue;
    const std::string id = row.at("id");
    SCOPED_TRACE(id + ": " + std::string(row.at("mistake")));
    const auto scenario = rows().find(id);
    if (scenario == rows().end()) {
      ADD_FAILURE() << "no scenario";
      continue;
    }
    ++walked;
    const Error error = fault([&] { scenario->second.provoke(fixture); });
    EXPECT_EQ(name(error.code()), row.at("expected_error")) << error.what();
    for (const auto& [coordinate, value] : scenario->second.coordinates) {
      EXPECT_EQ(error.coordinate(coordinate), value) << error.what();
    }
  }
  EXPECT_EQ(walked, rows().size());
}

// The pack order's last key decides only between rows of one slot.
TEST(FailureRows, TiesKeepTheirSemanticOrder) {
  const Fixture fixture;
  Problem tied = fixture.problem;
  tied.assign("r00", 1);
  const Trace trace(tied, ProcessGroup::identity(4));
  EXPECT_EQ(trace.send_order()[0], (Names{"r00", "r02", "r01", "r03"}));
  Counts order{2, 0, 1, 3};
  PlanView view = trace.plan(0).view();
  view.send_order = order.data();
  const Error error = fault(
      [&] { check_plan(view, tied.origins[0].routes(tied.topk), *tied.placement, trace.group()); });
  EXPECT_EQ(error.code(), Code::SendOrderMismatch);
}

}  // namespace
}  // namespace waybill::conformance
