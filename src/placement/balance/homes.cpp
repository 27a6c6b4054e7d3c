#include "placement/balance/homes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "placement/balance/index.h"

namespace waybill {
namespace {

// [groups] nodes; the heaviest group first, into the least loaded node with room for a group.
std::vector<std::int32_t> spread(std::span<const double> group_load,
                                 std::span<const double> node_speed) {
  std::vector<std::size_t> order(group_load.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return group_load[a] > group_load[b]; });
  const std::size_t room = group_load.size() / node_speed.size();
  std::vector<double> load(node_speed.size(), 0);
  std::vector<std::size_t> taken(node_speed.size(), 0);
  std::vector<std::int32_t> node_of(group_load.size());
  for (std::size_t g : order) {
    std::size_t best = load.size();
    for (std::size_t n = 0; n < load.size(); ++n) {
      if (taken[n] == room) continue;
      if (best == load.size() || load[n] / node_speed[n] < load[best] / node_speed[best]) best = n;
    }
    load[best] += group_load[g];
    ++taken[best];
    node_of[g] = static_cast<std::int32_t>(best);
  }
  return node_of;
}

// Exchanges groups between nodes while that lowers the slower of the two.
void even_out(std::span<const double> group_load, std::span<const double> node_speed,
              std::vector<std::int32_t>& node_of) {
  std::vector<double> load(node_speed.size(), 0);
  for (std::size_t g = 0; g < node_of.size(); ++g) load[at(node_of[g])] += group_load[g];
  const auto slower = [&](std::size_t m, std::size_t n, double moved) {
    return std::max((load[m] - moved) / node_speed[m], (load[n] + moved) / node_speed[n]);
  };
  for (bool improved = true; improved;) {
    improved = false;
    for (std::size_t g = 0; g < node_of.size(); ++g) {
      for (std::size_t h = 0; h < g; ++h) {
        const std::size_t m = at(node_of[g]), n = at(node_of[h]);
        const double moved = group_load[g] - group_load[h];
        if (m == n || slower(m, n, moved) >= slower(m, n, 0) * (1 - 1e-9)) continue;
        load[m] -= moved;
        load[n] += moved;
        std::swap(node_of[g], node_of[h]);
        improved = true;
      }
    }
  }
}

// The nodes that already hold whole groups, if every group has one and they are evenly used.
std::optional<std::vector<std::int32_t>> nodes_in_force(const LayerProblem& problem,
                                                        std::int32_t groups,
                                                        const SlotLists& in_force) {
  const std::size_t size = problem.load.size() / at(groups), nodes = at(problem.nodes);
  std::vector<std::vector<char>> held(nodes, std::vector<char>(problem.load.size(), 0));
  for (std::size_t r = 0; r < in_force.size(); ++r) {
    for (std::int32_t e : in_force[r]) held[at(problem.node[r])][at(e)] = 1;
  }
  std::vector<std::size_t> room(nodes, at(groups) / nodes);
  std::vector<std::int32_t> node_of;
  for (std::size_t g = 0; g < at(groups); ++g) {
    for (std::size_t n = 0; n < nodes && node_of.size() == g; ++n) {
      const auto group = std::span(held[n]).subspan(g * size, size);
      if (room[n] == 0 || std::ranges::count(group, 1) < static_cast<std::ptrdiff_t>(size))
        continue;
      --room[n];
      node_of.push_back(static_cast<std::int32_t>(n));
    }
    if (node_of.size() == g) return std::nullopt;
  }
  return node_of;
}

}  // namespace

std::vector<std::int32_t> assign_homes(const LayerProblem& problem, std::int32_t groups,
                                       const SlotLists& in_force) {
  auto node_of = nodes_in_force(problem, groups, in_force);
  const std::size_t size = problem.load.size() / at(groups);
  if (!node_of) {
    std::vector<double> group_load(at(groups), 0), node_speed(at(problem.nodes), 0);
    for (std::size_t e = 0; e < problem.load.size(); ++e) group_load[e / size] += problem.load[e];
    for (std::size_t p = 0; p < problem.node.size(); ++p) {
      node_speed[at(problem.node[p])] += problem.speed[p];
    }
    node_of = spread(group_load, node_speed);
    even_out(group_load, node_speed, *node_of);
  }
  std::vector<std::int32_t> home;
  for (std::size_t e = 0; e < problem.load.size(); ++e) home.push_back((*node_of)[e / size]);
  return home;
}

}  // namespace waybill
