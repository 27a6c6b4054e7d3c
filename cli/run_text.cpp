// The report of `run` for a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "run_result.h"
#include "text.h"

namespace waybill::cli {
namespace {

template <class Value>
Value sum(const RunResult& result, const std::function<Value(const LayerRun&)>& of) {
  Value total;
  for (const LayerRun& layer : result.layers) total += of(layer);
  return total;
}

Rows rows(const RunResult& result, Rows RowLedger::*member) {
  return sum<Rows>(result, [&](const LayerRun& layer) { return layer.rows.*member; });
}

LogicalBytes logical(const RunResult& result, LogicalBytes ByteLedger::*member) {
  return sum<LogicalBytes>(result, [&](const LayerRun& layer) { return layer.bytes.*member; });
}

Nanoseconds time(const RunResult& result, Nanoseconds StepReport::Times::*member) {
  return sum<Nanoseconds>(result, [&](const LayerRun& layer) { return layer.slowest.*member; });
}

const LayerRun& highest(const RunResult& result) {
  return *std::ranges::max_element(result.layers, {},
                                   [](const LayerRun& layer) { return layer.live.peak; });
}

std::string head(const RunOptions& options, const RunResult& result) {
  const ModelConfig& model = result.model;
  const StepOptions& step = options.step;
  std::string text;
  text += field(
      "model", fmt::format("{}: {} of {} layers have experts; d {}, E {}, k {}, d_ff {}{}",
                           model.family, model.moe_layers.size(), model.layers, model.hidden,
                           model.experts, model.topk, model.ff,
                           model.shared_ff > 0 ? fmt::format(", shared {}", model.shared_ff) : ""));
  if (!result.unused_tensors.empty()) {
    text +=
        field("unused", fmt::format("{} tensors of MoE blocks: {}", result.unused_tensors.size(),
                                    fmt::join(result.unused_tensors, " ")));
  }
  text += field("ranks", fmt::format("{} on {} node{}, peer order {}", step.ranks, step.nodes,
                                     step.nodes == 1 ? "" : "s", counts_text(result.peer_order)));
  const auto slots =
      std::accumulate(result.rank_slots.begin(), result.rank_slots.end(), std::int64_t{0});
  text += field("placement", fmt::format("{}: {} slots ({} by rank), selector {}", result.placement,
                                         slots, counts_text(result.rank_slots), step.selector));
  text += field("tokens", fmt::format("{} random rows a layer ({} by rank), seed {}", step.tokens,
                                      counts_text(result.rank_tokens), step.seed));
  text += field("execution",
                fmt::format("{}, {} runner, {} exchange, {} transport, {} kernels, checks {}{}",
                            step.dtype, step.runner, step.exchange, step.transport, result.kernels,
                            step.checks, step.dedup ? ", dedup" : ""));
  return text;
}

std::string layer_table(const RunResult& result) {
  constexpr std::string_view line = "{:>5} {:>9} {:>9} {:>8} {:>10} {:>12} {:>10} {:>9}\n";
  std::string text;
  text += fmt::format(line, "", "routes", "remote", "dropped", "busiest", "remote", "live", "step");
  text +=
      fmt::format(line, "layer", "rows", "rows", "rows", "over mean", "logical", "peak", "time");
  for (const LayerRun& layer : result.layers) {
    text += fmt::format(fmt::runtime(line), layer.layer.value, layer.rows.routes.value,
                        layer.rows.remote.value, layer.rows.dropped.value,
                        fmt::format("{:.2f} x", layer.busiest_over_mean()),
                        bytes_text(layer.bytes.remote_logical.value),
                        bytes_text(layer.live.peak.value), time_text(layer.slowest.total.value));
  }
  return text;
}

std::string ledger(const RunResult& result) {
  std::string text;
  text += field(
      "rows",
      fmt::format("{} routes = {} local + {} remote; dispatch sends {}; a padded "
                  "exchange would reserve {}",
                  rows(result, &RowLedger::routes).value, rows(result, &RowLedger::local).value,
                  rows(result, &RowLedger::remote).value, rows(result, &RowLedger::payload).value,
                  rows(result, &RowLedger::padded).value));
  text +=
      field("logical",
            fmt::format("{} dispatch + {} combine between ranks, {} with metadata (from shapes; no "
                        "protocol)",
                        bytes_text(logical(result, &ByteLedger::remote_dispatch).value),
                        bytes_text(logical(result, &ByteLedger::remote_combine).value),
                        bytes_text(logical(result, &ByteLedger::remote_logical).value)));
  const LayerRun& peak = highest(result);
  text += field("live", fmt::format("peak {} in layer {} (buffers of all ranks that coexist); "
                                    "largest rank reserved {}",
                                    bytes_text(peak.live.peak.value), peak.layer.value,
                                    bytes_text(peak.reserved.value)));
  using Times = StepReport::Times;
  text += field(
      "measured",
      fmt::format(
          "{} of steps (slowest rank); of each phase, on the rank where it takes longest: plan {}, "
          "agree {}, pack {}, dispatch {}, experts {}, return {}, combine {}; peak resident {}",
          time_text(time(result, &Times::total).value), time_text(time(result, &Times::plan).value),
          time_text(time(result, &Times::agree).value), time_text(time(result, &Times::pack).value),
          time_text(time(result, &Times::dispatch).value),
          time_text(time(result, &Times::experts).value),
          time_text(time(result, &Times::give_back).value),
          time_text(time(result, &Times::combine).value), bytes_text(result.peak_resident.value)));
  return text;
}

// What a comparison says of the router's choices.
std::string routing_text(const Comparison& all, bool with_gates) {
  std::string text = all.topk_differs == 0
                         ? "; top-k ids equal"
                         : fmt::format("; top-k ids of {} tokens differ", all.topk_differs);
  if (with_gates) {
    text += all.gates_differ == 0 ? ", gates equal"
                                  : fmt::format(", gates of {} tokens differ", all.gates_differ);
  }
  if (all.tied_choices > 0) text += fmt::format(" ({} ties)", all.tied_choices);
  return text;
}

// One line for a kind of comparison over all layers, or nothing.
std::string comparison(const RunResult& result, std::optional<Comparison> LayerRun::*member,
                       std::string_view label, std::string_view reference) {
  std::int64_t blocks = 0;
  Comparison all;
  double max_rel_error = 0, rel_frobenius = 0;
  for (const LayerRun& layer : result.layers) {
    const auto& found = layer.*member;
    if (!found) continue;
    ++blocks;
    all.tokens += found->tokens;
    all.topk_differs += found->topk_differs;
    all.gates_differ += found->gates_differ;
    all.tied_choices += found->tied_choices;
    max_rel_error = std::max(max_rel_error, found->max_rel_error());
    rel_frobenius = std::max(rel_frobenius, found->rel_frobenius());
  }
  if (blocks == 0) return {};
  return field(label,
               fmt::format("{} rows of {} layer{} against {}: max_rel_error {:.2e}, "
                           "rel_frobenius {:.2e}{}",
                           all.tokens, blocks, blocks == 1 ? "" : "s", reference, max_rel_error,
                           rel_frobenius, routing_text(all, member == &LayerRun::check)));
}

std::string verdict(const RunOptions& options, const RunResult& result) {
  if (!result.max_rel_error()) return "not compared; add --check or --golden FILE";
  const Tolerance tolerance{options.step.dtype == "bf16" ? DType::bf16 : DType::f32};
  if (result.violations.empty()) {
    return fmt::format("right: {} within {}", tolerance.measure(), tolerance.limit());
  }
  std::string text = "WRONG:";
  for (const Error& violation : result.violations) text += fmt::format("\n{}", violation.what());
  return text;
}

}  // namespace

void print_text(const RunOptions& options, const RunResult& result) {
  std::string text;
  text += fmt::format("{}\n{}\n{}\n", head(options, result), layer_table(result), ledger(result));
  text += comparison(result, &LayerRun::check, "check",
                     "a direct evaluation of router, experts and block in double");
  text += comparison(result, &LayerRun::golden, "golden", "the recording");
  text += field("sha256", result.output_sha256);
  text += field("verdict", verdict(options, result));
  fmt::print("{}", text);
}

}  // namespace waybill::cli
