#include "step_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "command_line.h"
#include "failure.h"
#include "waybill/error.h"
#include "waybill/topology_manifest.h"

namespace waybill::cli {
namespace {

using Names = std::initializer_list<std::string_view>;

constexpr Range rank_range{1, 4096};

void require_built(std::string_view option, std::string_view value, Names built, Names later) {
  if (std::ranges::find(built, value) != built.end()) return;
  if (std::ranges::find(later, value) != later.end()) {
    throw Error(Code::OptionNotBuilt)
        .at("option", option)
        .expected(fmt::format("{}", fmt::join(built, ", ")))
        .found(value);
  }
  throw Error(Code::UsageError)
      .at("option", option)
      .expected(fmt::format("one of {}", fmt::join(built, ", ")))
      .found(value);
}

std::int32_t parse_id(std::string_view option, std::string_view text) {
  std::int32_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size()) {
    throw Error(Code::InvalidValue)
        .at("option", option)
        .expected("a whole number")
        .found(text.empty() ? "nothing" : text);
  }
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<Rank> resolve_peer_order(const StepOptions& options) {
  const auto ranks = static_cast<std::size_t>(options.ranks);
  std::vector<Rank> order(ranks);
  for (std::size_t r = 0; r < ranks; ++r) order[r] = Rank{static_cast<std::int32_t>(r)};
  if (options.peer_order.empty()) return order;
  if (options.peer_order == "random") {
    std::mt19937_64 random(options.seed);
    // Fisher-Yates by hand: std::shuffle gives other orders with other libraries.
    for (std::size_t left = ranks; left > 1; --left)
      std::swap(order[left - 1], order[random() % left]);
    return order;
  }
  order.clear();
  for (std::string_view part : split(options.peer_order, ',')) {
    order.emplace_back(parse_id("--peer-order", part));
  }
  const std::set<Rank> members(order.begin(), order.end());
  const bool permutation = order.size() == ranks && members.size() == ranks &&
                           members.begin()->value == 0 && members.rbegin()->index() + 1 == ranks;
  if (!permutation) {
    throw Error(Code::PeerOrderInvalid)
        .at("option", "--peer-order")
        .expected(fmt::format("each rank from 0 to {} once", ranks - 1))
        .found(options.peer_order);
  }
  return order;
}

// What the files about machines say; nothing where none is given.
struct Machines {
  std::optional<TopologyManifest> topology;
  std::optional<GroupTable> groups;
  std::string groups_file;
};

Machines read_machines(const StepOptions& options) {
  Machines machines;
  if (options.topology.empty()) return machines;
  machines.topology =
      reading(options.topology, [&] { return read_topology_manifest(options.topology); });
  machines.groups = machines.topology->groups;
  machines.groups_file = options.topology;
  if (!options.groups.empty()) {
    machines.groups = reading(options.groups, [&] {
                        return read_groups_manifest(options.groups, &*machines.topology);
                      }).table;
    machines.groups_file = options.groups;
  }
  return machines;
}

// An option that repeats what a file says must say the same.
void agree_with_file(std::string_view option, std::int64_t& given, std::int32_t stated,
                     const std::string& file) {
  if (given == 0) given = stated;
  if (given == stated) return;
  throw Error(Code::UsageError)
      .at("option", option)
      .at("file", file)
      .expected(fmt::format("{}, as the file says, or no {}", stated, option))
      .found(given);
}

Topology resolve_topology(StepOptions& options, const std::optional<TopologyManifest>& manifest) {
  if (!manifest) {
    constexpr std::int64_t ranks = 4, nodes = 1;
    if (options.ranks == 0) options.ranks = ranks;
    if (options.nodes == 0) options.nodes = nodes;
    return Topology::uniform(static_cast<std::int32_t>(options.ranks),
                             static_cast<std::int32_t>(options.nodes));
  }
  Topology topology = manifest->topology();
  if (std::cmp_greater(topology.ranks(), rank_range.high)) {
    throw Error(Code::InvalidValue)
        .at("file", options.topology)
        .expected(fmt::format("at most {} ranks", rank_range.high))
        .found(topology.ranks());
  }
  agree_with_file("--ranks", options.ranks, topology.ranks(), options.topology);
  agree_with_file("--nodes", options.nodes, topology.nodes(), options.topology);
  return topology;
}

// The only group of all ranks; nothing when there is none.
std::optional<ProcessGroupId> only_full_group(const GroupTable& table, const std::string& file) {
  std::vector<std::string> ids;
  for (const GroupRecord& group : table.groups) {
    if (group.kind == GroupKind::full_ep) ids.push_back(group.id.value);
  }
  if (ids.empty()) return std::nullopt;
  if (ids.size() == 1) return ProcessGroupId(ids.front());
  throw Error(Code::ProcessGroupMismatch)
      .at("file", file)
      .expected("one full_ep group, or a placement that names the group that it is for")
      .found(fmt::format("{}", fmt::join(ids, ", ")));
}

// `wanted` is the group that the placement names, if it does.
ProcessGroup resolve_group(const StepOptions& options, const Machines& machines,
                           const ProcessGroupId& wanted) {
  std::optional<ProcessGroupId> id;
  if (!wanted.value.empty()) id = wanted;
  if (machines.groups && !id) id = only_full_group(*machines.groups, machines.groups_file);
  if (!machines.groups || !id) {
    return {id.value_or(ProcessGroupId("ep-group-0")), GroupEpoch{0}, resolve_peer_order(options)};
  }
  if (!options.peer_order.empty()) {
    throw Error(Code::UsageError)
        .at("option", "--peer-order")
        .at("file", machines.groups_file)
        .expected("no --peer-order, as the file states that of its groups")
        .found(options.peer_order);
  }
  ProcessGroup group = reading(machines.groups_file, [&] { return machines.groups->group(*id); });
  if (group.size() != options.ranks) {
    throw Error(Code::GroupShapeMismatch)
        .at("file", machines.groups_file)
        .at("process_group", *id)
        .expected(fmt::format("all {} ranks", options.ranks))
        .found(group.size());
  }
  return group;
}

Generation contiguous_generation(std::int32_t experts, std::int32_t ranks,
                                 std::span<const LayerId> layers) {
  Generation generation;
  generation.version = PlacementVersion("contiguous");
  const auto placement =
      std::make_shared<const Placement>(Placement::contiguous(generation.version, experts, ranks));
  for (LayerId layer : layers) generation.layers[layer] = placement;
  return generation;
}

}  // namespace

void add_step_options(Subcommand& command, StepOptions& options) {
  command.positional("CHECKPOINT_DIR", options.checkpoint,
                     "Directory of config.json and safetensors files");
  command.word("--checkpoint", options.checkpoint, "DIR", "CHECKPOINT_DIR as an option");
  command.exclude("--checkpoint", "CHECKPOINT_DIR");
  command.flag("--json", options.json, "Machine-readable output on stdout");

  const char* work = "Work";
  command.number("--tokens", options.tokens, token_range,
                 "Tokens in all, cut into contiguous blocks of ranks", work);
  command.word("--layers", options.layers, "LIST", "MoE layers, e.g. 0,2-5; default all", work);
  command.number("--seed", options.seed, seed_range, "Fixes everything random", work);
  command.word("--dtype", options.dtype, "TYPE", "f32 or bf16: rows, weights and return", work);

  const char* layout = "Layout";
  command.number("--ranks", options.ranks, rank_range,
                 "Expert-parallel ranks; default 4, or those of --topology", layout);
  command.number("--nodes", options.nodes, rank_range,
                 "Nodes that the ranks divide over evenly; default 1, or those of --topology",
                 layout);
  command.word("--topology", options.topology, "FILE",
               "Topology manifest (JSON): ranks, the node of each, and groups where it has some",
               layout);
  command.word("--groups", options.groups, "FILE",
               "Groups manifest (JSON): peer orders, in place of the topology file's", layout);
  command.need("--groups", "--topology");
  command.word("--peer-order", options.peer_order, "LIST",
               "Ranks in group order, e.g. 2,0,3,1, or random", layout);
  command.word("--placement", options.placement, "FILE",
               "Placement manifest (JSON); default: contiguous runs of experts, no replicas",
               layout);
  command.word("--selector", options.selector, "NAME",
               "Replica choice: first, round_robin, least_load, locality, hash", layout);

  const char* execution = "Execution";
  command.flag("--dedup", options.dedup, "Send one row per (token, rank)", execution);
  command.negation("--no-dedup", "--dedup", options.dedup, "Send one row per route (default)",
                   execution);
  command.word("--runner", options.runner, "NAME", "Expert runner: grouped", execution);
  command.word("--exchange", options.exchange, "NAME", "Exchange design: flat", execution);
  command.word("--transport", options.transport, "NAME", "local: ranks are threads of this process",
               execution);
  command.word("--device", options.device, "NAME", "cpu", execution);
  command.word("--checks", options.checks, "NAME", "off, counts or full", execution);
  command.number("--timeout-ms", options.timeout_ms, Range{1, 24 * 3600 * 1000},
                 "Longest wait for peers in one phase", execution);
}

StepSettings resolve_settings(const StepOptions& options) {
  require_built("--runner", options.runner, {"grouped"}, {"padded", "block_sparse"});
  require_built("--exchange", options.exchange, {"flat"},
                {"padded", "gathered", "hierarchical", "auto"});
  require_built("--transport", options.transport, {"local"}, {"mpi", "nccl", "peer"});
  require_built("--device", options.device, {"cpu"}, {"cuda"});
  require_built("--dtype", options.dtype, {"f32", "bf16"}, {"f16", "f8_e4m3", "f8_e5m2"});
  require_built("--checks", options.checks, {"off", "counts", "full"}, {});
  require_built("--selector", options.selector,
                {"first", "round_robin", "least_load", "locality", "hash"},
                {"queue_aware", "split"});
  StepSettings settings;
  settings.dtype = options.dtype == "bf16" ? DType::bf16 : DType::f32;
  settings.checks = options.checks == "off"    ? Checks::off
                    : options.checks == "full" ? Checks::full
                                               : Checks::counts;
  find_selector(options.selector, settings.selector);
  return settings;
}

Layout resolve_layout(StepOptions& options, std::int32_t experts, std::span<const LayerId> layers) {
  const Machines machines = read_machines(options);
  Topology topology = resolve_topology(options, machines.topology);
  const auto ranks = static_cast<std::int32_t>(options.ranks);
  Generation generation =
      options.placement.empty()
          ? contiguous_generation(experts, ranks, layers)
          : reading(options.placement, [&] {
              return read_placement_manifest(options.placement, experts, ranks, layers, &topology);
            });
  ProcessGroup group = resolve_group(options, machines, generation.group);
  generation.group = group.id();
  return {std::move(topology), std::move(group), std::move(generation)};
}

std::vector<LayerId> resolve_layers(const StepOptions& options, std::span<const LayerId> layers) {
  if (options.layers.empty()) return {layers.begin(), layers.end()};
  std::set<LayerId> chosen;
  for (std::string_view part : split(options.layers, ',')) {
    const std::size_t dash = part.find('-', 1);
    const std::int32_t first = parse_id("--layers", part.substr(0, dash));
    const std::int32_t last =
        dash == std::string_view::npos ? first : parse_id("--layers", part.substr(dash + 1));
    const auto in_part = [&](LayerId layer) { return layer.value >= first && layer.value <= last; };
    const auto found = std::ranges::count_if(layers, in_part);
    if (first < 0 || last < first || found != std::int64_t{last} - first + 1) {
      std::vector<std::int32_t> known;
      for (LayerId layer : layers) known.push_back(layer.value);
      throw Error(Code::InvalidValue)
          .at("option", "--layers")
          .expected(fmt::format("layers with experts: {}", fmt::join(known, ", ")))
          .found(part);
    }
    std::ranges::copy_if(layers, std::inserter(chosen, chosen.end()), in_part);
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace waybill::cli
