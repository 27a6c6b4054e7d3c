#include "waybill/eplb.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "placement/balance/cluster.h"
#include "placement/balance/eplb_sort.h"
#include "placement/balance/winner_tree.h"
#include "waybill/error.h"

namespace waybill {
namespace {

// Adds a group's loads in the order of the recorded build: eight lanes of four partial sums.
float lane_sum(std::span<const float> row) {
  constexpr std::size_t kLanes = 8, kPartials = 4;
  const std::size_t width = row.size() < kLanes ? 1 : kLanes;
  const std::size_t blocks = row.size() / width;
  const std::size_t dealt = blocks / kPartials * kPartials;
  std::array<std::array<float, kLanes>, kPartials> partial{};
  for (std::size_t b = 0; b < blocks; ++b) {
    auto& into = partial[b < dealt ? b % kPartials : 0];
    for (std::size_t lane = 0; lane < width; ++lane) into[lane] += row[b * width + lane];
  }
  float sum = 0;
  for (float value : row.subspan(blocks * width)) sum += value;
  for (std::size_t lane = 0; lane < width; ++lane) {
    float total = partial[0][lane];
    for (std::size_t p = 1; p < kPartials; ++p) total += partial[p][lane];
    sum += total;
  }
  return sum;
}

struct Seat {
  std::int32_t pack, rank;  // rank: position inside the pack
};

// One layer at a time; holds the working arrays.
class EplbSolver {
 public:
  EplbSolver(std::int32_t experts, const EplbShape& shape)
      : experts_(experts), replicas_(shape.replicas), gpus_(shape.gpus) {
    if (shape.hierarchical()) {
      groups_ = shape.groups;
      nodes_ = shape.nodes;
    }
    local_.resize(static_cast<std::size_t>(experts));
  }

  // weight [E]; phy2log, phyrank [R]; logcnt [E].
  void solve(std::span<const float> weight, std::span<std::int32_t> phy2log,
             std::span<std::int32_t> phyrank, std::span<std::int32_t> logcnt) {
    order_by_node(weight);
    const std::int32_t per_node = experts_ / nodes_;
    const std::int32_t slots = replicas_ / nodes_, slots_per_gpu = replicas_ / gpus_;
    for (std::int32_t node = 0; node < nodes_; ++node) {
      const std::span<const std::int32_t> experts(local_.data() + node * per_node,
                                                  static_cast<std::size_t>(per_node));
      replicate(weight, experts, slots);
      pack(item_load_, gpus_ / nodes_);
      for (std::size_t i = 0; i < item_expert_.size(); ++i) {
        const std::int32_t q = node * slots + seat_[i].pack * slots_per_gpu + seat_[i].rank;
        const auto slot = static_cast<std::size_t>(q);
        phy2log[slot] = experts[static_cast<std::size_t>(item_expert_[i])];
        phyrank[slot] = item_copy_[i];
      }
      for (std::size_t e = 0; e < experts.size(); ++e) {
        logcnt[static_cast<std::size_t>(experts[e])] = copies_[e];
      }
    }
  }

 private:
  // Step 1: groups to nodes; local_ lists the experts node by node.
  void order_by_node(std::span<const float> weight) {
    const auto size = static_cast<std::size_t>(experts_ / groups_);
    group_load_.resize(static_cast<std::size_t>(groups_));
    for (std::size_t g = 0; g < group_load_.size(); ++g) {
      group_load_[g] = lane_sum(weight.subspan(g * size, size));
    }
    pack(group_load_, nodes_);
    const std::int32_t groups_per_node = groups_ / nodes_;
    for (std::size_t g = 0; g < group_load_.size(); ++g) {
      const std::int32_t place = seat_[g].pack * groups_per_node + seat_[g].rank;
      const auto at = static_cast<std::size_t>(place);
      std::iota(local_.begin() + static_cast<std::ptrdiff_t>(at * size),
                local_.begin() + static_cast<std::ptrdiff_t>((at + 1) * size),
                static_cast<std::int32_t>(g * size));
    }
  }

  // Step 2: each spare slot goes to the expert with the largest load per copy.
  void replicate(std::span<const float> weight, std::span<const std::int32_t> experts,
                 std::int32_t slots) {
    const std::size_t n = experts.size();
    copies_.assign(n, 1);
    item_expert_.resize(static_cast<std::size_t>(slots));
    item_copy_.assign(static_cast<std::size_t>(slots), 0);
    std::iota(item_expert_.begin(), item_expert_.begin() + static_cast<std::ptrdiff_t>(n), 0);
    heaviest_.reset(n);
    for (std::size_t e = 0; e < n; ++e) {
      heaviest_.set(e, weight[static_cast<std::size_t>(experts[e])]);
    }
    heaviest_.refresh();
    for (std::size_t i = n; i < item_expert_.size(); ++i) {
      const std::size_t e = heaviest_.winner();
      item_expert_[i] = static_cast<std::int32_t>(e);
      item_copy_[i] = copies_[e]++;
      heaviest_.update(
          e, weight[static_cast<std::size_t>(experts[e])] / static_cast<float>(copies_[e]));
    }
    item_load_.resize(item_expert_.size());
    for (std::size_t i = 0; i < item_load_.size(); ++i) {
      const auto e = static_cast<std::size_t>(item_expert_[i]);
      item_load_[i] = weight[static_cast<std::size_t>(experts[e])] / static_cast<float>(copies_[e]);
    }
  }

  // Equal numbers of items into `packs`, heaviest first, each into the lightest pack with room;
  // seat_[i] receives item i's place.
  void pack(std::span<const float> load, std::int32_t packs) {
    const std::size_t n = load.size();
    const std::int32_t room = static_cast<std::int32_t>(n) / packs;
    seat_.resize(n);
    if (room == 1) {
      for (std::size_t i = 0; i < n; ++i) seat_[i] = {static_cast<std::int32_t>(i), 0};
      return;
    }
    sorted_.resize(n);
    for (std::size_t i = 0; i < n; ++i) sorted_[i] = {load[i], static_cast<std::int32_t>(i)};
    eplb_sort(sorted_);
    taken_.assign(static_cast<std::size_t>(packs), 0);
    pack_load_.assign(static_cast<std::size_t>(packs), 0);
    lightest_.reset(pack_load_.size());
    lightest_.refresh();
    for (const KeyedIndex& item : sorted_) {
      const std::size_t p = lightest_.winner();
      seat_[static_cast<std::size_t>(item.index)] = {static_cast<std::int32_t>(p), taken_[p]};
      pack_load_[p] += item.key;
      if (++taken_[p] == room) {
        lightest_.take_out(p);
      } else {
        lightest_.update(p, pack_load_[p]);
      }
    }
  }

  std::int32_t experts_, replicas_, gpus_, groups_ = 1, nodes_ = 1;
  std::vector<std::int32_t> local_, copies_, item_expert_, item_copy_, taken_;
  std::vector<float> group_load_, item_load_, pack_load_;
  std::vector<Seat> seat_;
  std::vector<KeyedIndex> sorted_;
  WinnerTree heaviest_{WinnerTree::Wins::largest}, lightest_{WinnerTree::Wins::smallest};
};

// "16 or 20": the multiples of `unit` around `value`, none below `least`.
std::string nearest_multiples(std::int32_t value, std::int32_t unit, std::int32_t least) {
  const std::int32_t below = value / unit * unit;
  return below < least ? fmt::format("{}", below + unit)
                       : fmt::format("{} or {}", below, below + unit);
}

void want_multiple(std::string_view field, std::int32_t value, std::string_view of,
                   std::int32_t unit, std::int32_t least) {
  if (value % unit == 0) return;
  throw Error(Code::DivisibilityMismatch)
      .at("field", field)
      .expected(fmt::format("a multiple of the {} {}, nearest {}", unit, of,
                            nearest_multiples(value, unit, least)))
      .found(value);
}

void check_loads(std::span<const float> weight, std::int32_t experts) {
  for (std::size_t i = 0; i < weight.size(); ++i) {
    if (std::isfinite(weight[i]) && weight[i] >= 0) continue;
    throw Error(Code::InvalidValue)
        .at("layer", i / static_cast<std::size_t>(experts))
        .at("expert", i % static_cast<std::size_t>(experts))
        .expected("a load of 0 or more, finite in binary32")
        .found(weight[i]);
  }
}

// The inverse map, padded to the most copies of any layer.
void invert(EplbPlan& plan) {
  const auto copies = std::ranges::max_element(plan.logcnt);
  plan.max_copies = copies == plan.logcnt.end() ? 0 : *copies;
  const auto width = static_cast<std::size_t>(plan.max_copies);
  plan.log2phy.assign(plan.logcnt.size() * width, -1);
  const auto experts = static_cast<std::size_t>(plan.experts);
  const auto slots = static_cast<std::size_t>(plan.replicas);
  for (std::size_t i = 0; i < plan.phy2log.size(); ++i) {
    const std::size_t row = i / slots * experts + static_cast<std::size_t>(plan.phy2log[i]);
    plan.log2phy[row * width + static_cast<std::size_t>(plan.phyrank[i])] =
        static_cast<std::int32_t>(i % slots);
  }
}

}  // namespace

void check_eplb_shape(std::int32_t experts, const EplbShape& shape) {
  want_positive("experts", experts);
  want_positive("replicas", shape.replicas);
  want_positive("groups", shape.groups);
  want_positive("nodes", shape.nodes);
  want_positive("gpus", shape.gpus);
  if (shape.replicas < experts) {
    throw Error(Code::ReplicaCardinalityZero)
        .at("experts", experts)
        .expected(fmt::format("a slot for each expert, at least {} slots on {} GPUs",
                              (experts + shape.gpus - 1) / shape.gpus * shape.gpus, shape.gpus))
        .found(fmt::format("{} slots", shape.replicas));
  }
  want_multiple("replicas", shape.replicas, "GPUs", shape.gpus, experts);
  if (!shape.hierarchical()) return;
  want_multiple("experts", experts, "groups", shape.groups, 1);
  want_multiple("gpus", shape.gpus, "nodes", shape.nodes, 1);
}

EplbPlan eplb(std::span<const float> weight, std::int32_t layers, std::int32_t experts,
              const EplbShape& shape) {
  check_eplb_shape(experts, shape);
  const auto e = static_cast<std::size_t>(experts), r = static_cast<std::size_t>(shape.replicas);
  if (layers < 0 || weight.size() != static_cast<std::size_t>(layers) * e) {
    throw Error(Code::ShapeMismatch)
        .at("field", "weight")
        .expected(fmt::format("{} layers of {} loads", layers, experts))
        .found(fmt::format("{} loads", weight.size()));
  }
  check_loads(weight, experts);

  EplbPlan plan;
  plan.layers = layers;
  plan.experts = experts;
  plan.replicas = shape.replicas;
  plan.phy2log.resize(static_cast<std::size_t>(layers) * r);
  plan.phyrank.resize(plan.phy2log.size());
  plan.logcnt.resize(weight.size());
  if (!shape.hierarchical()) {
    plan.warnings.push_back(
        fmt::format("{} groups don't divide over {} nodes: groups and nodes are ignored, replicas "
                    "may cross nodes",
                    shape.groups, shape.nodes));
  }
  EplbSolver solver(experts, shape);
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(layers); ++layer) {
    const auto row = weight.subspan(layer * e, e);
    solver.solve(row, std::span(plan.phy2log).subspan(layer * r, r),
                 std::span(plan.phyrank).subspan(layer * r, r),
                 std::span(plan.logcnt).subspan(layer * e, e));
    if (std::ranges::all_of(row, [](float load) { return load == 0; })) {
      plan.warnings.push_back(fmt::format(
          "layer {} has no load: its spare slots go to the first expert of each node", layer));
    }
  }
  invert(plan);
  return plan;
}

}  // namespace waybill
