#include "step_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <numeric>
#include <random>
#include <set>
#include <string_view>
#include <system_error>

#include "command_line.h"
#include "failure.h"
#include "waybill/error.h"

namespace waybill::cli {
namespace {

using Names = std::initializer_list<std::string_view>;

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
  constexpr Range ranks{1, 4096};
  command.number("--ranks", options.ranks, ranks, "Expert-parallel ranks", layout);
  command.number("--nodes", options.nodes, ranks, "Nodes that the ranks divide over evenly",
                 layout);
  command.word("--topology", options.topology, "FILE",
               "Ranks and nodes from a file (not built yet)", layout);
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
  if (!options.topology.empty()) {
    throw Error(Code::OptionNotBuilt)
        .at("option", "--topology")
        .expected("--nodes")
        .found(options.topology);
  }

  StepSettings settings;
  settings.dtype = options.dtype == "bf16" ? DType::bf16 : DType::f32;
  settings.checks = options.checks == "off"    ? Checks::off
                    : options.checks == "full" ? Checks::full
                                               : Checks::counts;
  find_selector(options.selector, settings.selector);
  return settings;
}

Layout resolve_layout(const StepOptions& options, std::int32_t experts,
                      std::span<const LayerId> layers) {
  const auto ranks = static_cast<std::int32_t>(options.ranks);
  Topology topology = Topology::uniform(ranks, static_cast<std::int32_t>(options.nodes));
  Generation generation =
      options.placement.empty()
          ? contiguous_generation(experts, ranks, layers)
          : reading(options.placement, [&] {
              return read_placement_manifest(options.placement, experts, ranks, layers, &topology);
            });
  if (generation.group.value.empty()) generation.group = ProcessGroupId("ep-group-0");
  ProcessGroup group(generation.group, GroupEpoch{0}, resolve_peer_order(options));
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
