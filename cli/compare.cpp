#include "compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "waybill/error.h"

namespace waybill::cli {
namespace {

// Multiply-adds in double that --check spends when it isn't told how many tokens to evaluate.
constexpr std::int64_t check_budget = 400'000'000;

// Tokens whose chosen experts are not the recorded ones. A library may list them in any order.
std::int64_t differing_tokens(std::span<const std::int32_t> computed,
                              std::span<const std::int64_t> recorded, std::size_t topk) {
  std::int64_t differing = 0;
  for (std::size_t first = 0; first < computed.size(); first += topk) {
    differing +=
        std::ranges::is_permutation(computed.subspan(first, topk), recorded.subspan(first, topk))
            ? 0
            : 1;
  }
  return differing;
}

}  // namespace

std::int64_t tokens_to_check(const RunOptions& options, const ModelConfig& model,
                             std::size_t layers) {
  const std::int64_t tokens = options.step.tokens;
  if (options.check_tokens > 0) return std::min(options.check_tokens, tokens);
  const std::int64_t width = std::int64_t{model.ff} * model.topk + model.shared_ff;
  const std::int64_t layer_cost = std::max<std::int64_t>(3 * width * model.hidden, 1);
  const std::int64_t affordable = check_budget / (layer_cost * static_cast<std::int64_t>(layers));
  return std::clamp<std::int64_t>(affordable, std::min<std::int64_t>(tokens, 1), tokens);
}

Comparison compare_directly(const Checkpoint& checkpoint, LayerId layer, const BlockRun& run,
                            std::span<const float> hidden, std::int64_t count, ThreadPool& pool) {
  const auto d = static_cast<std::size_t>(checkpoint.config().hidden);
  const auto k = static_cast<std::size_t>(checkpoint.config().topk);
  const std::size_t tokens = hidden.size() / d;
  const auto sample = static_cast<std::size_t>(count);
  const auto token_of = [&](std::size_t i) { return i * tokens / sample; };
  std::vector<DirectRow> direct(sample);
  std::vector<RoutingVerdict> routing(sample);
  pool.run(static_cast<std::int32_t>(sample), [&](std::int32_t task) {
    const auto i = static_cast<std::size_t>(task);
    const std::size_t t = token_of(i);
    const auto row = hidden.subspan(t * d, d);
    const auto experts = std::span(run.topk_experts).subspan(t * k, k);
    const auto gates = std::span(run.topk_gates).subspan(t * k, k);
    routing[i] = judge(route_directly(checkpoint, layer, row), experts, gates);
    direct[i] = evaluate_directly(checkpoint, layer, row, experts, gates);
  });
  Comparison comparison;
  comparison.tokens = count;
  for (std::size_t i = 0; i < sample; ++i) {
    const std::size_t row = token_of(i) * d;
    comparison.experts_out.add(std::span(run.experts_out).subspan(row, d), direct[i].experts_out);
    comparison.block_out.add(std::span(run.block_out).subspan(row, d), direct[i].block_out);
  }
  comparison.topk_differs = std::ranges::count(routing, RoutingVerdict::other_experts);
  comparison.gates_differ = std::ranges::count(routing, RoutingVerdict::other_gates);
  comparison.tied_choices = std::ranges::count(routing, RoutingVerdict::tied);
  return comparison;
}

Comparison compare_recorded(const ModelConfig& model, const RecordedBlock& recorded,
                            const BlockRun& run) {
  Comparison comparison;
  comparison.tokens = recorded.tokens(model.hidden);
  comparison.experts_out.add(run.experts_out, recorded.experts_out);
  comparison.block_out.add(run.block_out, recorded.block_out);
  comparison.topk_differs =
      differing_tokens(run.topk_experts, recorded.topk, static_cast<std::size_t>(model.topk));
  return comparison;
}

void collect_violations(LayerId layer, std::string_view against, const Comparison& comparison,
                        DType dtype, std::vector<Error>& violations) {
  const Tolerance tolerance{dtype};
  const auto require_near = [&](std::string_view tensor, const Accuracy& accuracy) {
    if (tolerance.of(accuracy) <= tolerance.limit()) return;
    violations.push_back(
        Error(Code::CombineMismatch)
            .at("layer", layer)
            .at("tensor", tensor)
            .at("against", against)
            .expected(fmt::format("{} up to {}", tolerance.measure(), tolerance.limit()))
            .found(fmt::format("{:.3g}", tolerance.of(accuracy))));
  };
  require_near("experts_out", comparison.experts_out);
  require_near("block_out", comparison.block_out);
  const auto require_none = [&](Code code, std::string_view tensor, std::string_view expected,
                                std::int64_t differing) {
    if (differing == 0) return;
    violations.push_back(Error(code)
                             .at("layer", layer)
                             .at("tensor", tensor)
                             .at("against", against)
                             .expected(expected)
                             .found(fmt::format("{} tokens differ", differing)));
  };
  require_none(Code::LogicalExpertMismatch, "topk_ids", "the same experts for every token",
               comparison.topk_differs);
  require_none(Code::CombineMismatch, "topk_gates", "the router's gates for every token",
               comparison.gates_differ);
}

}  // namespace waybill::cli
