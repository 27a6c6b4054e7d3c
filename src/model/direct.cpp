#include <algorithm>
#include <cmath>
#include <vector>

#include "model/direct_input.h"
#include "waybill/block.h"

namespace waybill {
namespace {

// The factor of the shared expert's output: the sigmoid of its router's logit, or 1.
double shared_gate(const Checkpoint& checkpoint, LayerId layer, std::span<const double> x) {
  const auto router = checkpoint.shared_expert_router(layer);
  if (!router) return 1.0;
  double logit = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    logit += x[i] * element(router->weight, 0, static_cast<std::int64_t>(i));
  }
  return 1.0 / (1.0 + std::exp(-logit));
}

}  // namespace

DirectRow evaluate_directly(const Checkpoint& checkpoint, LayerId layer,
                            std::span<const float> hidden_row,
                            std::span<const std::int32_t> topk_experts,
                            std::span<const float> topk_gates) {
  check_hidden_row(checkpoint, hidden_row);
  check_gates(topk_experts, topk_gates);
  const Activation& activation = checkpoint.config().activation;
  const bool scales_input = checkpoint.config().scales_input;
  const std::vector<double> x(hidden_row.begin(), hidden_row.end());
  std::vector<double> y(x.size()), scaled(x.size());
  DirectRow row{std::vector<double>(x.size(), 0.0), {}};
  for (std::size_t j = 0; j < topk_experts.size(); ++j) {
    if (topk_experts[j] == dropped_route) continue;
    const auto gate = static_cast<double>(topk_gates[j]);
    const double input_gate = scales_input ? gate : 1.0;
    const double output_gate = scales_input ? 1.0 : gate;
    std::ranges::transform(x, scaled.begin(), [=](double value) { return input_gate * value; });
    evaluate_expert(checkpoint.expert(layer, ExpertId{topk_experts[j]}), activation, scaled, y);
    for (std::size_t i = 0; i < y.size(); ++i) row.experts_out[i] += output_gate * y[i];
  }
  row.block_out = row.experts_out;
  if (const auto shared = checkpoint.shared_expert(layer)) {
    evaluate_expert(*shared, activation, x, y);
    const double gate = shared_gate(checkpoint, layer, x);
    for (std::size_t i = 0; i < y.size(); ++i) row.block_out[i] += gate * y[i];
  }
  return row;
}

}  // namespace waybill
