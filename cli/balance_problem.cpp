// From what was typed to what the solver gets.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "balance_result.h"
#include "failure.h"
#include "waybill/dtype.h"
#include "waybill/error.h"
#include "waybill/topology_manifest.h"

namespace waybill::cli {
namespace {

constexpr std::int32_t most_growth = 2;  // times the slots that auto begins with

template <class Enumeration, std::size_t N>
Enumeration choice(std::string_view option, const std::string& word,
                   const std::array<std::pair<std::string_view, Enumeration>, N>& all) {
  std::string names;
  for (const auto& [text, value] : all) {
    if (word == text) return value;
    names += (names.empty() ? "" : ", ") + std::string(text);
  }
  throw Error(Code::UsageError)
      .at("option", option)
      .expected(fmt::format("one of {}", names))
      .found(word);
}

Solver solver_of(const std::string& word) {
  return choice(
      "--solver", word,
      std::to_array<std::pair<std::string_view, Solver>>(
          {{"waybill", Solver::waybill}, {"eplb", Solver::eplb}, {"exact", Solver::exact}}));
}

Locality locality_of(const std::string& word) {
  return choice("--locality", word,
                std::to_array<std::pair<std::string_view, Locality>>({{"auto", Locality::automatic},
                                                                      {"none", Locality::none},
                                                                      {"soft", Locality::soft},
                                                                      {"hard", Locality::hard}}));
}

[[noreturn]] void refuse_shape(const std::string& shape) {
  throw Error(Code::InvalidValue)
      .at("option", "--shape")
      .expected("width, intermediate width and element type of an expert, e.g. 7168,2048,f8_e4m3")
      .found(shape);
}

// "d,ff,dtype": three matrices of d x ff (0x08F).
std::uint64_t bytes_of_shape(const std::string& shape) {
  std::array<std::uint64_t, 2> widths{};
  const char* at = shape.data();
  const char* const end = at + shape.size();
  for (std::uint64_t& width : widths) {
    const auto [rest, fault] = std::from_chars(at, end, width);
    const bool good = fault == std::errc{} && rest != end && *rest == ',' && width > 0;
    if (!good || width > (1U << 24U)) refuse_shape(shape);
    at = rest + 1;
  }
  constexpr auto dtypes = std::to_array(
      {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2, DType::i8, DType::u8});
  const std::string_view word(at, static_cast<std::size_t>(end - at));
  const auto* dtype = std::ranges::find_if(dtypes, [&](DType d) { return name(d) == word; });
  if (dtype == dtypes.end()) refuse_shape(shape);
  return 3 * widths[0] * widths[1] * size_of(*dtype);
}

BalanceOptions options_of(const BalanceCommand& command) {
  BalanceOptions options;
  options.solver = solver_of(command.solver);
  options.locality = locality_of(command.locality);
  options.groups = static_cast<std::int32_t>(command.groups);
  options.min_gain = command.min_gain;
  options.exact_seconds = command.exact_seconds;
  options.expert_bytes =
      command.shape.empty() ? command.expert_bytes : bytes_of_shape(command.shape);
  if (command.max_moves >= 0) {
    options.max_changed_slots = static_cast<std::int32_t>(command.max_moves);
  }
  const auto want_bytes = [&](std::string_view option, bool given) {
    if (!given || options.expert_bytes > 0) return;
    throw Error(Code::UsageError)
        .at("command", "waybill balance")
        .at("option", option)
        .expected("--expert-bytes or --shape beside it")
        .found("neither");
  };
  want_bytes("--link-gbps", command.link_gbps > 0);
  want_bytes("--memory-bytes", command.memory_bytes > 0);
  if (command.link_gbps > 0) {
    options.pay_off = PayOff{command.link_gbps, command.step_us, command.horizon};
  }
  return options;
}

std::optional<Topology> stated_topology(const BalanceCommand& command) {
  if (command.topology.empty()) return std::nullopt;
  return reading(command.topology,
                 [&] { return read_topology_manifest(command.topology).topology(); });
}

PlacementTable read_in_force(const BalanceCommand& command, const Demand& demand,
                             const LoadSeries& series, std::int64_t ranks) {
  FileHints hints;
  hints.experts = demand.load.experts();
  hints.dense_layers = series.dense_layers;
  if (ranks > 0) hints.ranks = static_cast<std::int32_t>(ranks);
  PlacementTable table =
      reading(command.from, [&] { return read_placement_table(command.from, hints); });
  if (ranks > 0 && table.ranks() != ranks) {
    throw Error(Code::RankCountMismatch)
        .at("file", command.from)
        .expected(fmt::format("a placement on {} ranks", ranks))
        .found(table.ranks());
  }
  return table;
}

// Slots by rank as the placement in force has them in every layer.
std::vector<std::int32_t> slots_in_force(const BalanceCommand& command,
                                         std::span<const SlotLists> in_force,
                                         std::span<const LayerId> layers) {
  std::vector<std::int32_t> slots;
  for (const auto& list : in_force.front()) slots.push_back(static_cast<std::int32_t>(list.size()));
  for (std::size_t i = 0; i < in_force.size(); ++i) {
    const auto same = [](const auto& list, std::int32_t count) {
      return std::cmp_equal(list.size(), count);
    };
    if (std::ranges::equal(in_force[i], slots, same)) continue;
    throw Error(Code::ShapeMismatch)
        .at("file", command.from)
        .at("layer", layers[i])
        .expected("as many slots on each rank as in the first layer")
        .note("--slots N plans for as many in every layer");
  }
  return slots;
}

// A cluster of `ranks` ranks with any number of slots.
class ClusterOf {
 public:
  ClusterOf(std::int32_t experts, std::int32_t ranks, std::int32_t nodes,
            std::optional<Topology> topology)
      : experts_(experts), ranks_(ranks), nodes_(nodes), topology_(std::move(topology)) {}

  Cluster with(std::int32_t slots) const {
    Cluster cluster = even_cluster(experts_, ranks_, topology_ ? 1 : nodes_, slots);
    if (topology_) cluster.topology = *topology_;
    return cluster;
  }
  std::int32_t ranks() const { return ranks_; }
  // Each rank one slot more until every expert has one.
  std::int32_t fewest_equal() const { return (experts_ + ranks_ - 1) / ranks_ * ranks_; }

 private:
  std::int32_t experts_, ranks_, nodes_;
  std::optional<Topology> topology_;
};

// The fewest slots, equally many on every rank, from which one more a rank gains less than
// --min-gain.
std::int32_t fewest_that_gain(const LoadMatrix& load, const ClusterOf& clusters,
                              BalanceOptions options) {
  if (options.solver == Solver::exact) options.solver = Solver::waybill;  // which takes no minutes
  options.pay_off.reset();
  std::int32_t slots = clusters.fewest_equal();
  const std::int64_t most = std::min<std::int64_t>(std::int64_t{most_growth} * slots,
                                                   std::int64_t{load.experts()} * clusters.ranks());
  double ratio = balance(load, clusters.with(slots), {}, options).mean_ratio_after();
  while (slots + clusters.ranks() <= most) {
    const std::int32_t more = slots + clusters.ranks();
    const double with_more = balance(load, clusters.with(more), {}, options).mean_ratio_after();
    if (with_more > ratio * (1 - options.min_gain)) break;
    slots = more;
    ratio = with_more;
  }
  return slots;
}

void choose_slots(const BalanceCommand& command, const ClusterOf& clusters,
                  BalanceProblem& problem) {
  const LoadMatrix& load = problem.demand.load;
  const auto layers = static_cast<std::int32_t>(load.layers().size());
  if (command.slots > 0) {
    problem.cluster = clusters.with(command.slots);
  } else if (command.slots == 0 && !problem.in_force.empty()) {
    problem.cluster = clusters.with(clusters.fewest_equal());
    problem.cluster.slots = slots_in_force(command, problem.in_force, load.layers());
    problem.slots_reason = "as in force";
  } else if (command.memory_bytes > 0) {
    const std::vector<std::uint64_t> memory{command.memory_bytes};
    const std::int32_t each =
        slots_that_fit(memory, problem.options.expert_bytes, layers, load.experts()).front();
    problem.cluster = clusters.with(each * clusters.ranks());
    problem.slots_reason = "all that fit";
  } else {
    problem.cluster = clusters.with(fewest_that_gain(load, clusters, problem.options));
    problem.slots_reason = fmt::format("one more a rank would gain less than {:.2g} %",
                                       100 * problem.options.min_gain);
  }
  if (command.memory_bytes > 0) {
    problem.cluster.memory_bytes.assign(problem.cluster.slots.size(), command.memory_bytes);
  }
}

// The public solver passes over groups that don't divide over nodes, and then over nodes too.
void drop_nodes_as_eplb_does(BalanceProblem& problem, std::int32_t& nodes) {
  BalanceOptions& options = problem.options;
  if (options.solver != Solver::eplb || options.groups % nodes == 0) return;
  if (options.locality == Locality::soft || options.locality == Locality::hard) return;
  if (options.locality == Locality::automatic) {
    problem.warnings.push_back(fmt::format(
        "{} groups don't divide over {} nodes: solver eplb ignores both", options.groups, nodes));
  }
  options.locality = Locality::none;
  nodes = 1;
}

void warn_of_sources(BalanceProblem& problem) {
  const std::int32_t sources = problem.demand.load.sources();
  const std::int32_t nodes = problem.cluster.topology.nodes();
  if (sources == 1 || sources == nodes) return;
  problem.warnings.push_back(
      fmt::format("loads tell {} source nodes apart, the ranks have {}: rows between nodes are "
                  "unknown",
                  sources, nodes));
}

std::vector<Rank> lost_ranks(const BalanceCommand& command) {
  std::set<Rank> lost;
  if (command.lost_rank.empty()) return {};
  for (std::int32_t rank : parse_ids("--lost-rank", command.lost_rank)) lost.emplace(rank);
  return {lost.begin(), lost.end()};
}

}  // namespace

BalanceProblem resolve(const BalanceCommand& command) {
  BalanceOptions options = options_of(command);
  LoadSeries series = read_loads(command.loads, hints_of(command.files, command.ranks));
  Demand demand = estimate(series, command.windows);
  BalanceProblem problem{.demand = std::move(demand),
                         .series = std::move(series),
                         .cluster = {Topology::uniform(1), {}, {}, {}},
                         .slots_reason = {},
                         .table = {},
                         .in_force = {},
                         .options = options,
                         .lost = lost_ranks(command),
                         .warnings = {}};
  problem.warnings = problem.series.warnings;
  const LoadMatrix& load = problem.demand.load;
  std::optional<Topology> topology = stated_topology(command);
  std::int64_t ranks = topology ? topology->ranks() : command.ranks;
  if (!command.from.empty()) {
    problem.table = read_in_force(command, problem.demand, problem.series, ranks);
    problem.in_force =
        reading(command.from, [&] { return lists_for(*problem.table, load.layers()); });
    ranks = problem.table->ranks();
    const std::vector<NodeId>& node_of = problem.table->node_of;
    if (!topology && command.nodes == 0 && !node_of.empty()) topology = Topology::of(node_of);
  }
  if (ranks == 0) {
    throw Error(Code::UsageError)
        .at("command", "waybill balance")
        .expected("--ranks, --topology, or a placement (--from) that states its ranks")
        .found("none of them");
  }
  auto nodes = topology ? topology->nodes()
                        : static_cast<std::int32_t>(std::max<std::int64_t>(command.nodes, 1));
  const std::int32_t named = nodes;
  drop_nodes_as_eplb_does(problem, nodes);
  if (nodes != named) topology.reset();
  choose_slots(
      command,
      ClusterOf(load.experts(), static_cast<std::int32_t>(ranks), nodes, std::move(topology)),
      problem);
  warn_of_sources(problem);
  return problem;
}

}  // namespace waybill::cli
