#include <algorithm>
#include <vector>

#include "waybill/block.h"

namespace waybill {

DirectRow evaluate_directly(const Checkpoint& checkpoint, LayerId layer,
                            std::span<const float> hidden_row,
                            std::span<const std::int32_t> topk_experts,
                            std::span<const float> topk_gates) {
  const Activation& activation = checkpoint.config().activation;
  const std::vector<double> x(hidden_row.begin(), hidden_row.end());
  std::vector<double> y(x.size());
  DirectRow row{std::vector<double>(x.size(), 0.0), {}};
  for (std::size_t j = 0; j < topk_experts.size(); ++j) {
    if (topk_experts[j] == dropped_route) continue;
    evaluate_expert(checkpoint.expert(layer, ExpertId{topk_experts[j]}), activation, x, y);
    const auto gate = static_cast<double>(topk_gates[j]);
    for (std::size_t i = 0; i < y.size(); ++i) row.experts_out[i] += gate * y[i];
  }
  row.block_out = row.experts_out;
  if (const auto shared = checkpoint.shared_expert(layer)) {
    evaluate_expert(*shared, activation, x, y);
    for (std::size_t i = 0; i < y.size(); ++i) row.block_out[i] += y[i];
  }
  return row;
}

}  // namespace waybill
