#include "placement/balance/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>

#include "placement/balance/index.h"
#include "waybill/error.h"

namespace waybill {
namespace {

template <class T>
void want_one_a_rank(std::string_view field, const std::vector<T>& values, std::int32_t ranks) {
  if (values.size() == at(ranks)) return;
  throw Error(Code::ShapeMismatch)
      .at("field", field)
      .expected(fmt::format("one value for each of the {} ranks", ranks))
      .found(values.size());
}

// The divisors of `whole` next to `value`, as a message gives them: "2 or 4".
std::string nearest_divisors(std::int32_t whole, std::int32_t value) {
  std::int32_t below = std::min(value, whole), above = value;
  while (whole % below != 0) --below;
  while (above < whole && whole % above != 0) ++above;
  if (above > whole || whole % above != 0 || above == below) return fmt::format("{}", below);
  return fmt::format("{} or {}", below, above);
}

void check_slots(std::int32_t experts, const Cluster& cluster) {
  std::int32_t total = 0;
  for (std::size_t p = 0; p < cluster.slots.size(); ++p) {
    const std::int32_t slots = cluster.slots[p];
    if (slots < 0 || slots > experts) {
      throw Error(Code::InvalidValue)
          .at("rank", p)
          .at("field", "slots")
          .expected(fmt::format("0 to {}, as a rank holds one copy of an expert at most", experts))
          .found(slots);
    }
    total += slots;
  }
  if (total < experts) {
    throw Error(Code::ReplicaCardinalityZero)
        .at("experts", experts)
        .expected(fmt::format("a slot for each expert, {} at least", experts))
        .found(fmt::format("{} slots", total));
  }
}

void check_speed(const Cluster& cluster) {
  for (std::size_t p = 0; p < cluster.speed.size(); ++p) {
    if (std::isfinite(cluster.speed[p]) && cluster.speed[p] > 0) continue;
    throw Error(Code::InvalidValue)
        .at("rank", p)
        .at("field", "speed")
        .expected("a finite number above 0")
        .found(cluster.speed[p]);
  }
}

void check_memory(const Cluster& cluster, std::int32_t experts, std::int32_t layers,
                  std::uint64_t expert_bytes) {
  if (cluster.memory_bytes.empty() || expert_bytes == 0) return;
  const auto fit = slots_that_fit(cluster.memory_bytes, expert_bytes, layers, experts);
  for (std::size_t p = 0; p < fit.size(); ++p) {
    if (cluster.slots[p] <= fit[p]) continue;
    throw Error(Code::InvalidValue)
        .at("rank", p)
        .at("field", "slots")
        .expected(fmt::format("at most {}, which fit {} bytes with {} layers of {} bytes a slot",
                              fit[p], cluster.memory_bytes[p], layers, expert_bytes))
        .found(cluster.slots[p]);
  }
}

[[noreturn]] void refuse_groups(std::int32_t value, std::string_view of, std::int32_t whole,
                                const std::string& nearest) {
  throw Error(Code::DivisibilityMismatch)
      .at("field", "groups")
      .expected(fmt::format("groups that divide over the {} {}, nearest {}", whole, of, nearest))
      .found(fmt::format("{} groups", value));
}

// The node that can't hold the experts of its groups, if there is one.
struct ShortNode {
  std::int32_t node, slots, experts;
};
std::optional<ShortNode> short_node(std::int32_t experts, const LayerProblem& problem) {
  std::vector<std::int32_t> room(at(problem.nodes), 0);
  for (std::int32_t p = 0; p < problem.ranks(); ++p) {
    room[at(problem.node[at(p)])] += problem.slots_on(p);
  }
  const auto least = std::ranges::min_element(room);
  const std::int32_t at_home = experts / problem.nodes;
  if (*least >= at_home) return std::nullopt;
  return ShortNode{static_cast<std::int32_t>(least - room.begin()), *least, at_home};
}

// Under hard a node holds the experts of its groups and nothing else.
void check_only_home(std::int32_t experts, const LayerProblem& problem) {
  const std::int32_t at_home = experts / problem.nodes;
  for (std::int32_t p = 0; p < problem.ranks(); ++p) {
    if (problem.slots_on(p) <= at_home) continue;
    throw Error(Code::InvalidValue)
        .at("rank", p)
        .at("field", "slots")
        .expected(fmt::format("at most {}, the experts of a node", at_home))
        .found(problem.slots_on(p));
  }
}

// Why groups can't have home nodes, for a warning; empty where they can.
std::string no_homes(std::int32_t experts, std::int32_t groups, const LayerProblem& problem) {
  if (groups % problem.nodes != 0) {
    return fmt::format("{} groups don't divide over {} nodes", groups, problem.nodes);
  }
  if (experts % groups != 0) {
    return fmt::format("{} experts don't divide into {} groups", experts, groups);
  }
  if (const auto node = short_node(experts, problem)) {
    return fmt::format("node {} has {} slots for the {} experts of its groups", node->node,
                       node->slots, node->experts);
  }
  return {};
}

void require_homes(std::int32_t experts, std::int32_t groups, const LayerProblem& problem) {
  const std::int32_t nodes = problem.nodes;
  if (experts % groups != 0) {
    refuse_groups(groups, "experts", experts, nearest_divisors(experts, groups));
  }
  if (groups % nodes != 0) {
    const std::int32_t below = groups / nodes * nodes;
    refuse_groups(
        groups, "nodes", nodes,
        below == 0 ? fmt::format("{}", nodes) : fmt::format("{} or {}", below, below + nodes));
  }
  if (const auto node = short_node(experts, problem)) {
    throw Error(Code::ReplicaCardinalityZero)
        .at("node", node->node)
        .expected(fmt::format("a slot for each of its {} experts", node->experts))
        .found(fmt::format("{} slots", node->slots));
  }
}

// Whether homes are kept; automatic keeps them where the numbers allow it.
bool keeps_homes(std::int32_t experts, const LayerProblem& problem, const BalanceOptions& options,
                 std::vector<std::string>& warnings) {
  want_positive("groups", options.groups);
  if (options.locality == Locality::none) return false;
  if (options.locality != Locality::automatic) {
    require_homes(experts, options.groups, problem);
    return problem.nodes > 1;
  }
  if (options.groups == 1) return false;
  const std::string why_not = no_homes(experts, options.groups, problem);
  if (why_not.empty()) return problem.nodes > 1;
  warnings.push_back(why_not + ": groups are ignored, copies go to any node");
  return false;
}

// Numbers the nodes that have ranks with slots 0, 1, ….
void number_nodes(LayerProblem& problem) {
  std::vector<std::int32_t> present = problem.node;
  std::ranges::sort(present);
  present.erase(std::unique(present.begin(), present.end()), present.end());
  for (std::int32_t& node : problem.node) {
    node = static_cast<std::int32_t>(std::ranges::lower_bound(present, node) - present.begin());
  }
  problem.nodes = static_cast<std::int32_t>(present.size());
}

}  // namespace

void want_positive(std::string_view field, std::int32_t value) {
  if (value < 1) {
    throw Error(Code::InvalidValue).at("field", field).expected("at least 1").found(value);
  }
}

Cluster even_cluster(std::int32_t experts, std::int32_t ranks, std::int32_t nodes,
                     std::int32_t slots) {
  want_positive("experts", experts);
  want_positive("ranks", ranks);
  want_positive("nodes", nodes);
  if (slots < experts) {
    throw Error(Code::ReplicaCardinalityZero)
        .at("experts", experts)
        .at("ranks", ranks)
        .expected(fmt::format("a slot for each expert, {} at least", experts))
        .found(fmt::format("{} slots", slots));
  }
  if (slots < ranks) {
    throw Error(Code::TooManyRanks)
        .expected(fmt::format("at most {} ranks for {} slots", slots, slots))
        .found(ranks);
  }
  if (slots > static_cast<std::int64_t>(experts) * ranks) {
    throw Error(Code::InvalidValue)
        .at("field", "slots")
        .expected(fmt::format("at most {}, one copy of each of {} experts on {} ranks",
                              static_cast<std::int64_t>(experts) * ranks, experts, ranks))
        .found(slots);
  }
  if (ranks % nodes != 0) {
    throw Error(Code::DivisibilityMismatch)
        .at("field", "nodes")
        .expected(fmt::format("a divisor of the {} ranks, nearest {}", ranks,
                              nearest_divisors(ranks, nodes)))
        .found(nodes)
        .note("name each rank's node in a topology when nodes differ");
  }
  Cluster cluster{Topology::uniform(ranks, nodes), {}, {}, {}};
  for (std::int32_t p = 0; p < ranks; ++p) {
    cluster.slots.push_back(slots / ranks + (p < slots % ranks ? 1 : 0));
  }
  return cluster;
}

std::vector<std::int32_t> slots_that_fit(std::span<const std::uint64_t> memory_bytes,
                                         std::uint64_t expert_bytes, std::int32_t layers,
                                         std::int32_t experts) {
  want_positive("layers", layers);
  if (expert_bytes == 0) {
    throw Error(Code::InvalidValue).at("field", "expert_bytes").expected("at least 1").found(0);
  }
  std::vector<std::int32_t> slots;
  for (std::uint64_t bytes : memory_bytes) {
    const std::uint64_t fit = bytes / expert_bytes / static_cast<std::uint64_t>(layers);
    slots.push_back(static_cast<std::int32_t>(std::min(fit, static_cast<std::uint64_t>(experts))));
  }
  return slots;
}

ProblemFrame frame(std::int32_t experts, std::int32_t layers, const Cluster& cluster,
                   const BalanceOptions& options) {
  const std::int32_t ranks = cluster.topology.ranks();
  want_one_a_rank("slots", cluster.slots, ranks);
  if (!cluster.speed.empty()) want_one_a_rank("speed", cluster.speed, ranks);
  if (!cluster.memory_bytes.empty()) want_one_a_rank("memory_bytes", cluster.memory_bytes, ranks);
  check_slots(experts, cluster);
  check_speed(cluster);
  check_memory(cluster, experts, layers, options.expert_bytes);

  ProblemFrame made;
  LayerProblem& problem = made.problem;
  std::int32_t end = 0;
  for (std::int32_t p = 0; p < ranks; ++p) {
    if (cluster.slots[at(p)] == 0) continue;
    end += cluster.slots[at(p)];
    problem.slot_end.push_back(end);
    problem.speed.push_back(cluster.speed.empty() ? 1 : cluster.speed[at(p)]);
    problem.node.push_back(cluster.topology.node_of(Rank(p)).value);
    made.ranks.push_back(p);
  }
  const double speed = std::accumulate(problem.speed.begin(), problem.speed.end(), 0.0);
  for (double& s : problem.speed) s *= static_cast<double>(problem.ranks()) / speed;
  number_nodes(problem);
  problem.keep_home = keeps_homes(experts, problem, options, made.warnings);
  problem.only_home = problem.keep_home && options.locality == Locality::hard;
  if (problem.only_home) check_only_home(experts, problem);
  return made;
}

void check_in_force(const LoadMatrix& load, const Cluster& cluster,
                    std::span<const SlotLists> in_force) {
  if (in_force.empty()) return;
  if (in_force.size() != load.layers().size()) {
    throw Error(Code::ShapeMismatch)
        .at("field", "in_force")
        .expected(fmt::format("{} layers", load.layers().size()))
        .found(in_force.size());
  }
  for (std::size_t i = 0; i < in_force.size(); ++i) {
    if (in_force[i].size() != cluster.slots.size()) {
      throw Error(Code::ShapeMismatch)
          .at("layer", load.layers()[i])
          .expected(fmt::format("{} ranks", cluster.slots.size()))
          .found(in_force[i].size());
    }
    for (std::size_t rank = 0; rank < in_force[i].size(); ++rank) {
      for (std::int32_t e : in_force[i][rank]) {
        if (e >= 0 && e < load.experts()) continue;
        throw Error(Code::LogicalExpertMismatch)
            .at("layer", load.layers()[i])
            .at("rank", rank)
            .expected(fmt::format("an expert in [0, {})", load.experts()))
            .found(e);
      }
    }
  }
}

}  // namespace waybill
