#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "waybill/expert.h"

namespace waybill {
namespace {

double dot(const TensorView& matrix, std::int64_t row, std::span<const double> x) {
  double sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    sum += element(matrix, row, static_cast<std::int64_t>(k)) * x[k];
  }
  return sum;
}

double bias_at(const TensorView& bias, std::int64_t i) {
  return bias.data == nullptr ? 0.0 : element(bias, i);
}

double activate(const Activation& activation, double gate, double up) {
  if (activation.kind == ActivationKind::swiglu) return gate / (1 + std::exp(-gate)) * up;
  const double limit = activation.limit;
  gate = gate > limit ? limit : gate;  // a NaN stays
  up = up > limit ? limit : up < -limit ? -limit : up;
  return (up + 1) * gate / (1 + std::exp(-double{activation.alpha} * gate));
}

}  // namespace

void evaluate_expert(const ExpertWeights& weights, const Activation& activation,
                     std::span<const double> x, std::span<double> y) {
  assert(std::ssize(x) == weights.hidden() && std::ssize(y) == weights.hidden());
  std::vector<double> h(static_cast<std::size_t>(weights.ff()));
  for (std::int64_t i = 0; i < weights.ff(); ++i) {
    h[static_cast<std::size_t>(i)] =
        activate(activation, dot(weights.gate, i, x) + bias_at(weights.gate_bias, i),
                 dot(weights.up, i, x) + bias_at(weights.up_bias, i));
  }
  for (std::int64_t i = 0; i < weights.hidden(); ++i) {
    y[static_cast<std::size_t>(i)] = dot(weights.down, i, h) + bias_at(weights.down_bias, i);
  }
}

}  // namespace waybill
