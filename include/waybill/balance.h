// Better placements from measured loads: demand and the placement in force go in, a placement per
// layer comes out, with what it is predicted to give, what it costs to get there, and why.
//   const Cluster cluster = even_cluster(256, 32, 4, 288);
//   const BalancePlan plan = balance(loads, cluster, in_force, {.groups = 8});
// Predictions assume that replicas share an expert's load evenly (reference text 0x08B); how routes
// choose replicas is decided elsewhere (0x08H). Source: reference text 0x08.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/ids.h"
#include "waybill/load.h"
#include "waybill/thread_pool.h"
#include "waybill/topology.h"

namespace waybill {

// Logical experts of each rank's slots, for one layer: lists[r][i] sits in rank r's i-th slot.
using SlotLists = std::vector<std::vector<std::int32_t>>;

// The ranks that a plan is for. Ranks without slots take no part.
struct Cluster {
  Topology topology;
  std::vector<std::int32_t> slots;          // [P] of each layer
  std::vector<double> speed;                // [P] relative; empty: all equal
  std::vector<std::uint64_t> memory_bytes;  // [P] for the experts of all layers; empty: enough
};

// `slots` slots over `ranks` ranks of `nodes` equal nodes, the first ranks one more where they
// don't divide: 160 over 6 → 27,27,27,27,26,26. ReplicaCardinalityZero for fewer slots than
// experts, DivisibilityMismatch for nodes that don't divide the ranks, TooManyRanks for fewer slots
// than ranks, InvalidValue for more slots on a rank than experts; each with the nearest valid
// setting.
Cluster even_cluster(std::int32_t experts, std::int32_t ranks, std::int32_t nodes,
                     std::int32_t slots);

// Slots of each layer that fit every rank's memory, at most one an expert.
std::vector<std::int32_t> slots_that_fit(std::span<const std::uint64_t> memory_bytes,
                                         std::uint64_t expert_bytes, std::int32_t layers,
                                         std::int32_t experts);

enum class Solver : std::uint8_t {
  waybill,  // smallest largest-rank load under the constraints; no two copies of an expert on a
            // rank
  eplb,     // the public solver bit for bit: equal slots and speeds only
  exact,    // waybill's rules, proven optimal: small instances only, and a build with CBC
};
std::string_view name(Solver solver);

// Groups are contiguous blocks of experts, whole groups belong to nodes, equally many to each.
enum class Locality : std::uint8_t {
  automatic,  // soft where groups divide over nodes, else none with a warning
  none,
  soft,  // one copy of each expert in its group's node, the others anywhere
  hard,  // all copies in it
};

// Weights of 0x08I's objective. Each term is divided by its norm first, so a weight is the share of
// the mean rank time that one norm of the term is worth.
struct ObjectiveWeights {
  double balance = 1;     // largest rank time; norm: mean rank time
  double inter_node = 0;  // rows that cross nodes; norm: all rows of the layer
  double migration = 0;   // bytes that move; norm: bytes of all slots
  double resident = 0;    // bytes of all slots; norm: bytes of one copy of each expert
  double churn = 0.02;    // slots that change; norm: all slots
};

// The terms of one layer under one placement, in their own units.
struct ObjectiveTerms {
  double largest_rank = 0;           // in the load's unit, of a rank of mean speed
  double balance_ratio = 1;          // largest rank over mean rank (0x08D)
  std::optional<double> inter_node;  // in the load's unit; known when loads tell source nodes apart
  std::uint64_t migration_bytes = 0;
  std::uint64_t resident_bytes = 0;
  std::int32_t changed_slots = 0;
  double total = 0;  // the weighted sum of the normalised terms
};

// What decides whether a move pays.
struct PayOff {
  double link_gbps = 0;  // gigabits a second into each rank
  double step_us = 0;    // all MoE layers of one step, under the placement in force
  std::int64_t horizon_steps = 0;
};

struct BalanceOptions {
  Solver solver = Solver::waybill;
  Locality locality = Locality::automatic;
  std::int32_t groups = 1;
  // Without `pay_off` a placement in force stays when the largest rank would fall by a smaller
  // share than this.
  double min_gain = 0.005;
  std::optional<PayOff> pay_off = std::nullopt;
  std::optional<std::int32_t> max_changed_slots = std::nullopt;  // of a layer
  std::uint64_t expert_bytes = 0;  // one copy's parameters; 0: unknown
  ObjectiveWeights weights = {};
  double exact_seconds = 10;   // that solver exact may take for a layer
  ThreadPool* pool = nullptr;  // layers in parallel; the result doesn't depend on it
};

enum class Verdict : std::uint8_t {
  placed,     // there was no placement in force
  moves,      // changes the placement in force
  no_signal,  // the load is zero
  balanced,   // nothing better was found
  gain_too_small,
  does_not_pay,
};
std::string_view name(Verdict verdict);

enum class ProofStatus : std::uint8_t {
  optimal,    // no placement has a smaller ratio, to 1e-6
  bounded,    // too many placements are left to decide; none has a ratio below the bound
  timed_out,  // likewise, when time ran out
};
std::string_view name(ProofStatus status);

// What solver exact knows about the best balance ratio of a layer.
struct Proof {
  ProofStatus status = ProofStatus::optimal;
  double bound = 1;
};

struct LayerPlan {
  LayerId layer;
  SlotLists slots;        // the placement in force where the verdict is to stay
  ObjectiveTerms before;  // of the placement in force, else of contiguous runs without replicas
  ObjectiveTerms after;
  double attainable_ratio = 1;         // the best balance ratio found, whatever it costs
  std::optional<Proof> proof;          // of attainable_ratio; solver exact alone
  std::optional<double> saved_us;      // over the horizon, with pay_off
  std::optional<double> migration_us;  // until the busiest rank has received its experts
  Verdict verdict = Verdict::placed;
  std::string reason;
};

struct BalancePlan {
  std::vector<LayerPlan> layers;
  std::vector<std::string> warnings;

  double mean_ratio_before() const;
  double mean_ratio_after() const;
  std::int32_t changed_slots() const;
  std::uint64_t migration_bytes() const;
};

// `in_force` holds one SlotLists a layer, or none. It may break the rules that plans keep (two
// copies on a rank, other slot counts): then the nearest lists that keep them are the start, and
// what that changes counts as moves. Throws what even_cluster() throws for a cluster; also
// DivisibilityMismatch for groups that don't divide under soft or hard, and for eplb's shapes;
// InvalidValue for speeds or memory that can't be and for an instance too large for solver exact,
// OptionNotBuilt for that solver in a build without CBC; ShapeMismatch for lists of another shape;
// LogicalExpertMismatch for an expert id in force that doesn't exist. Deterministic, but for what
// solver exact has when its time runs out.
BalancePlan balance(const LoadMatrix& load, const Cluster& cluster,
                    std::span<const SlotLists> in_force = {}, const BalanceOptions& options = {});

// What remains when ranks are lost.
struct Reload {
  ExpertId expert;
  Rank rank;  // that has to load it
};
struct LostRankLayer {
  LayerId layer;
  std::vector<ExpertId> gone;   // no copy left
  std::vector<Reload> reloads;  // into slots of copies that others still have; nothing else moves
  LayerPlan plan;               // from there, for the ranks that are left
};
struct LostRankPlan {
  Cluster cluster;  // the lost ranks without slots
  std::vector<LostRankLayer> layers;
  std::vector<std::string> warnings;
};

// Plans for the ranks that are left. ReplicaCardinalityZero when their slots don't hold every
// expert, with how many more are needed; RankOutsideGroup for a rank that isn't in the cluster;
// MissingField without a placement in force.
LostRankPlan balance_without(const LoadMatrix& load, const Cluster& cluster,
                             std::span<const SlotLists> in_force, std::span<const Rank> lost,
                             const BalanceOptions& options = {});

// Largest rank time over mean rank time, Γ_rank of 0x08D. `load` [E], every expert in some list.
double balance_ratio(std::span<const double> load, const SlotLists& lists,
                     std::span<const double> speed = {});

// Mean over largest rank load, per layer, averaged with the layers' tokens as weights; 1 without
// tokens. `tokens[l][r]`: tokens of layer l on rank r.
double balancedness(std::span<const std::vector<double>> tokens);

}  // namespace waybill
