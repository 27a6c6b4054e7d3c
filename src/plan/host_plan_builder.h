// Builds a HostPlan by one counting sort over send keys. Routes are cut into chunks of whole
// tokens, one a thread; each chunk counts, then places its rows where the chunks before it end, so
// the result is that of one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "waybill/plan.h"
#include "waybill/thread_pool.h"

namespace waybill {

class HostPlanBuilder {
 public:
  HostPlanBuilder(HostPlan& plan, const RoutesView& routes, const Placement& placement,
                  const ProcessGroup& group, Rank source, const PlanOptions& options);

  void build(const SelectionTable& table);
  void build(std::span<const std::int32_t> assigned_slots);

 private:
  // A run of whole tokens and its working columns. What two chunks write at the same time lies in
  // different cache lines.
  struct Chunk {
    std::int32_t first_token, end_token;
    std::int32_t first_route, end_route;
    std::int32_t* bins;        // [E+2] dropped routes, routes of each expert, refused routes
    std::int32_t* next;        // [Q] rows of each slot; after scan() the slot's next send row
    std::int32_t* candidate;   // [E] the candidate that runs the expert's next route
    std::int32_t* share;       // [candidates] routes that each candidate has yet to run
    std::int32_t* peer_next;   // [P] payload rows of each peer, then the peer's next payload row
    std::int32_t* last_token;  // [P] last token with a payload row for the peer
  };

  // Unless a rule hashes the route, how many rows each slot gets follows from the expert counts
  // alone, so that slots are chosen while rows are placed.
  void place_on_only_candidates(const SelectionTable& table);
  void place_in_turn(const SelectionTable& table);
  void place_by_quota(const SelectionTable& table);
  void build_by_hash(const SelectionTable& table);

  void check_shape() const;
  void check_table(const SelectionTable& table) const;
  void check_assignment_size(std::span<const std::int32_t> assigned) const;
  void check_cardinality(const SelectionTable& table) const;

  void order_keys();
  // Lays out the working columns, counters at 0.
  void take_scratch(std::size_t candidates);
  std::size_t bins() const { return static_cast<std::size_t>(experts_) + 2; }
  std::int32_t* by_slot();     // [Q] shared by the chunks
  std::int32_t* turn_after();  // [candidates] the candidate whose turn comes next
  std::int32_t* by_bin() { return turn_after(); }  // the same entries, of a rule without turns
  // A column of chunk `index`, given that of the first chunk.
  std::int32_t* in_chunk(std::int32_t* column, std::int32_t index) const {
    return column + index * chunk_entries_;
  }
  Chunk chunk(std::int32_t index);
  template <class Body>
  void for_each_chunk(const Body& body);

  std::int32_t refused();
  void sum_expert_counts();
  // Rows of each slot of each chunk, and each chunk's first candidate of each expert.
  void give_only_candidates(const SelectionTable& table);
  void give_in_turn(const SelectionTable& table);
  void give_by_quota(const SelectionTable& table);
  // Counts to offsets: by send key, then by chunk.
  void scan();
  // choose(chunk, expert) is the slot of the expert's next route.
  template <class Choose>
  void place(const Choose& choose);
  void place_assigned();
  template <class SlotOf>
  void place_rows(const SlotOf& slot_of);
  void build_payload();
  // visit(route, token, peer, is_new) for each accepted route; is_new: the token's first to the
  // peer.
  template <class Visit>
  void visit_payload(const Chunk& chunk, const Visit& visit);

  [[noreturn]] void throw_first_slot_outside_group() const;
  [[noreturn]] void throw_first_bad_id() const;
  [[noreturn]] void throw_first_refused(std::span<const std::int32_t> assigned) const;

  HostPlan& plan_;
  const RoutesView& routes_;
  const Placement& placement_;
  const ProcessGroup& group_;
  const Rank source_;
  const PlanOptions& options_;
  const std::int32_t experts_, slots_, peers_;
  std::int32_t chunks_ = 1;
  std::size_t chunk_entries_ = 0;  // from a column of one chunk to that of the next
  Chunk chunk0_{};                 // columns only
};

template <class Body>
void HostPlanBuilder::for_each_chunk(const Body& body) {
  const auto run = [this, &body](std::int32_t index) { body(chunk(index)); };
  if (chunks_ == 1) {
    run(0);
  } else {
    options_.pool->run(chunks_, std::ref(run));
  }
}

}  // namespace waybill
