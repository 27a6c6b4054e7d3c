#include "waybill/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "waybill/error.h"

namespace waybill {
namespace {

std::vector<std::string> numbered_nodes(std::int32_t nodes) {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(nodes));
  for (std::int32_t n = 0; n < nodes; ++n) names.push_back(fmt::format("node-{}", n));
  return names;
}

// Without names there are as many nodes as the largest id asks for.
std::int32_t node_count(const std::vector<NodeId>& node_of) {
  NodeId last{-1};
  for (NodeId node : node_of) last = std::max(last, node);
  // More nodes than ranks leave one empty; naming them all first could take any amount of memory.
  if (std::cmp_greater_equal(last.value, node_of.size())) {
    throw Error(Code::DomainNotPartition)
        .at("node", last)
        .expected(fmt::format("a node id below the {} ranks", node_of.size()))
        .found(last);
  }
  return last.value + 1;
}

void check_names(const std::vector<std::string>& names) {
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) {
      throw Error(Code::DomainNotPartition)
          .at("node", name)
          .expected("a name of its own for each node")
          .found("the name twice");
    }
  }
}

void check_partition(const std::vector<NodeId>& node_of, std::size_t nodes) {
  std::vector<bool> owns(nodes, false);
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
    const NodeId node = node_of[rank];
    if (node.value < 0 || node.index() >= nodes) {
      throw Error(Code::DomainNotPartition)
          .at("rank", rank)
          .expected(fmt::format("a node id in [0, {})", nodes))
          .found(node);
    }
    owns[node.index()] = true;
  }
  const auto empty = std::find(owns.begin(), owns.end(), false);
  if (empty != owns.end()) {
    throw Error(Code::DomainNotPartition)
        .at("node", empty - owns.begin())
        .expected("at least one rank")
        .found("none");
  }
}

}  // namespace

Topology Topology::uniform(std::int32_t ranks, std::int32_t nodes) {
  if (ranks < 1) {
    throw Error(Code::InvalidValue).at("field", "ranks").expected("at least 1").found(ranks);
  }
  if (nodes < 1 || ranks % nodes != 0) {
    throw Error(Code::InvalidValue)
        .at("field", "nodes")
        .expected(fmt::format("a divisor of the {} ranks", ranks))
        .found(nodes);
  }
  std::vector<NodeId> node_of;
  node_of.reserve(static_cast<std::size_t>(ranks));
  for (std::int32_t rank = 0; rank < ranks; ++rank) node_of.emplace_back(rank / (ranks / nodes));
  return of(std::move(node_of));
}

Topology Topology::of(std::vector<NodeId> node_of, std::vector<std::string> node_names) {
  if (node_of.empty()) {
    throw Error(Code::InvalidValue).at("field", "ranks").expected("at least 1").found(0);
  }
  if (node_names.empty()) node_names = numbered_nodes(node_count(node_of));
  check_names(node_names);
  check_partition(node_of, node_names.size());

  Topology topology;
  topology.node_of_ = std::move(node_of);
  topology.node_names_ = std::move(node_names);
  return topology;
}

}  // namespace waybill
