// waybill plan: the plan of every rank, without executing anything.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "command.h"
#include "command_line.h"
#include "failure.h"
#include "plan_result.h"
#include "progress.h"
#include "seeded_rows.h"
#include "size_limits.h"
#include "synthetic_routes.h"
#include "waybill/block.h"
#include "waybill/error.h"

namespace waybill::cli {
namespace {

// Routes of all tokens of one layer → plans of all ranks.
class Planner {
 public:
  Planner(const PlanCommand& command, std::int32_t experts, std::int64_t hidden,
          const Layout& layout)
      : settings_(resolve_settings(command.step)),
        dedup_(command.step.dedup),
        experts_(experts),
        hidden_(hidden),
        ranks_(layout.topology.ranks()),
        layout_(layout) {}

  PlannedLayer plan(LayerId layer, const RoutingResult& routing) const {
    PlannedLayer planned;
    planned.layer = layer;
    split(routing, planned);
    build(planned);
    receive(planned);
    account(planned);
    return planned;
  }

 private:
  const Placement& placement(const PlannedLayer& planned) const {
    return layout_.generation.layer(planned.layer);
  }

  void split(const RoutingResult& routing, PlannedLayer& planned) const {
    const auto k = static_cast<std::size_t>(routing.topk);
    const auto tokens = static_cast<std::int64_t>(routing.experts.size() / k);
    planned.first_token = token_offsets(tokens, ranks_);
    for (std::size_t r = 0; r + 1 < planned.first_token.size(); ++r) {
      const auto first = static_cast<std::size_t>(planned.first_token[r]) * k;
      const auto count = static_cast<std::size_t>(planned.first_token[r + 1]) * k - first;
      planned.routes.emplace_back(static_cast<std::int32_t>(count / k), routing.topk, experts_,
                                  std::span(routing.experts).subspan(first, count),
                                  std::span(routing.gates).subspan(first, count));
    }
  }

  void build(PlannedLayer& planned) const {
    std::vector<std::int64_t> counts;  // [P, E]
    for (const Routes& routes : planned.routes) {
      const auto own = count_experts(routes.view(), experts_);
      counts.insert(counts.end(), own.begin(), own.end());
    }
    const bool global = needs_global_counts(settings_.selector);
    for (std::int32_t r = 0; r < ranks_; ++r) {
      const auto start = std::chrono::steady_clock::now();
      const auto known = global ? std::span(counts)
                                : std::span(counts).subspan(static_cast<std::size_t>(r) *
                                                                static_cast<std::size_t>(experts_),
                                                            static_cast<std::size_t>(experts_));
      const SelectionTable table =
          select(settings_.selector, placement(planned), layout_.topology, Rank{r}, known);
      planned.plans.push_back(build_plan(planned.routes[static_cast<std::size_t>(r)].view(), table,
                                         placement(planned), layout_.group, Rank{r},
                                         PlanOptions{dedup_, nullptr}));
      const Nanoseconds spent{std::chrono::duration_cast<std::chrono::nanoseconds>(
                                  std::chrono::steady_clock::now() - start)
                                  .count()};
      planned.plan_time = std::max(planned.plan_time, spent);
    }
  }

  void receive(PlannedLayer& planned) const {
    for (std::int32_t r = 0; r < ranks_; ++r) {
      const PeerSlot self = layout_.group.peer_of(Rank{r});
      std::vector<std::int32_t> counts;  // [P, Q_local]
      for (Rank source : layout_.group.peer_order()) {
        const auto sent = planned.plans[source.index()].slot_counts(self);
        counts.insert(counts.end(), sent.begin(), sent.end());
      }
      const auto local = static_cast<std::int32_t>(placement(planned).slots_on(Rank{r}).size());
      planned.receives.push_back(build_receive_plan(counts, local, layout_.group));
    }
  }

  void account(PlannedLayer& planned) const {
    std::vector<const HostPlan*> plans;
    for (Rank rank : layout_.group.peer_order()) plans.push_back(&planned.plans[rank.index()]);
    planned.rows = row_ledger(plans, layout_.group);
    const Representation representation = Representation::of(hidden_, settings_.dtype);
    std::int64_t offset_entries = 0;
    for (const ReceivePlan& receive : planned.receives) {
      offset_entries += std::ssize(receive.expert_offsets());
    }
    planned.bytes = byte_ledger(planned.rows, representation, ranks_, offset_entries);
    planned.live =
        live_ledger(step_buffers(planned.rows, planned.bytes, representation), step_events());
  }

  StepSettings settings_;
  bool dedup_;
  std::int32_t experts_;
  std::int64_t hidden_;
  std::int32_t ranks_;
  const Layout& layout_;
};

PlanResult plan_synthetic(PlanCommand& command) {
  if (command.routes != "uniform" && command.routes != "zipf") {
    throw Error(Code::UsageError)
        .at("option", "--routes")
        .expected("uniform or zipf")
        .found(command.routes);
  }
  if (command.topk > command.experts) {
    throw Error(Code::TopKExceedsExperts)
        .at("option", "--topk")
        .expected(fmt::format("at most {} (--experts)", command.experts))
        .found(command.topk);
  }
  limit_routes("waybill plan", command.step.tokens, command.topk);
  const std::vector<LayerId> layers{LayerId{0}};
  PlanResult result{
      .source = fmt::format("{} random, seed {}", command.routes, command.step.seed),
      .experts = static_cast<std::int32_t>(command.experts),
      .topk = static_cast<std::int32_t>(command.topk),
      .hidden = command.hidden,
      .layout = resolve_layout(command.step, static_cast<std::int32_t>(command.experts), layers),
      .layers = {}};
  limit_slot_counts("waybill plan", result.layout, layers);
  const SyntheticRoutes synthetic{command.routes, result.experts, result.topk, command.step.seed};
  const Planner planner(command, result.experts, result.hidden, result.layout);
  result.layers.push_back(planner.plan(LayerId{0}, make_routes(synthetic, command.step.tokens)));
  return result;
}

PlanResult plan_checkpoint(PlanCommand& command) {
  const Checkpoint checkpoint = Checkpoint::open(command.step.checkpoint);
  const ModelConfig& model = checkpoint.config();
  check_dedup(model, command.step.dedup);
  limit_routes("waybill plan", command.step.tokens, model.topk);
  limit_rows("waybill plan", command.step.tokens, model.hidden);
  PlanResult result{
      .source = fmt::format("{} router on random rows, seed {}", model.family, command.step.seed),
      .experts = model.experts,
      .topk = model.topk,
      .hidden = model.hidden,
      .layout = resolve_layout(command.step, model.experts, model.moe_layers),
      .layers = {}};
  const std::vector<LayerId> layers = resolve_layers(command.step, model.moe_layers);
  limit_slot_counts("waybill plan", result.layout, layers);
  const Planner planner(command, result.experts, result.hidden, result.layout);
  Progress progress("layer", std::ssize(layers));
  for (LayerId layer : layers) {
    progress.begin(std::ssize(result.layers) + 1);
    const auto hidden = seeded_rows(command.step.seed, layer, command.step.tokens, model.hidden);
    const TensorView rows =
        TensorView::contiguous(hidden.data(), DType::f32, {command.step.tokens, model.hidden});
    try {
      result.layers.push_back(planner.plan(layer, route(checkpoint.router(layer), rows)));
    } catch (Error& error) {
      if (error.code() == Code::GateNotFinite) {  // the rows are finite, so it is the router's
        error.at("layer", layer).at("file", checkpoint.directory());
      }
      throw;
    }
  }
  return result;
}

Exit plan(PlanCommand& command) {
  resolve_settings(command.step);
  if (command.routes.empty() == command.step.checkpoint.empty()) {
    throw Error(Code::UsageError)
        .at("command", "waybill plan")
        .expected("CHECKPOINT_DIR, or --routes with --experts and --topk")
        .found(command.routes.empty() ? "neither" : "both");
  }
  for (const auto& [option, value] :
       {std::pair("--experts", command.experts), std::pair("--topk", command.topk)}) {
    if (command.routes.empty() || value > 0) continue;
    throw Error(Code::UsageError)
        .at("command", "waybill plan")
        .at("option", "--routes")
        .expected(fmt::format("{} with it", option))
        .found("none");
  }
  const PlanResult result =
      command.routes.empty() ? plan_checkpoint(command) : plan_synthetic(command);
  if (!command.route.empty()) {
    const PlannedLayer& layer = result.layers.front();
    const Journey journey = trace(layer, result.layout, result.topk, command.route);
    command.step.json ? print_json(layer, journey) : print_text(layer, journey);
  } else {
    command.step.json ? print_json(command, result) : print_text(command, result);
  }
  return Exit::success;
}

}  // namespace

std::vector<std::vector<std::int64_t>> count_matrix(const PlannedLayer& layer,
                                                    const ProcessGroup& group) {
  std::vector<std::vector<std::int64_t>> matrix;
  for (const HostPlan& plan : layer.plans) {
    std::vector<std::int64_t>& row = matrix.emplace_back();
    for (std::size_t r = 0; r < layer.plans.size(); ++r) {
      row.push_back(plan.send_count(group.peer_of(Rank{static_cast<std::int32_t>(r)})));
    }
  }
  return matrix;
}

void add_plan(CommandLine& line) {
  auto options = std::make_shared<PlanCommand>();
  Subcommand command = line.add(
      "plan", "What run would send where, and what that costs in rows and bytes; executes nothing.",
      [options] { return plan(*options); });
  command.word("--route", options->route, "ROUTE",
               "Tell one route's journey, e.g. r05 (token * k + route slot)");
  const char* group = "Without a checkpoint";
  command.word("--routes", options->routes, "NAME", "Random routes: uniform or zipf", group);
  constexpr Range experts{1, 1 << 16};
  command.number("--experts", options->experts, experts, "Experts", group);
  command.number("--topk", options->topk, experts, "Experts that a token chooses", group);
  command.number("--hidden", options->hidden, Range{1, 1 << 20}, "Width of a row", group);
  add_step_options(command, options->step);
  for (const char* size : {"--experts", "--topk", "--hidden"}) command.need(size, "--routes");
  command.exclude("--layers", "--routes");
  command.example(
      "waybill plan --routes zipf --experts 64 --topk 8 --tokens 512 --ranks 4\n"
      "         waybill plan tests/data/checkpoints/qwen3_moe --ranks 4 --route r05");
}

}  // namespace waybill::cli
