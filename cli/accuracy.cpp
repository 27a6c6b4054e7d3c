#include "accuracy.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace waybill::cli {
namespace {

double ratio(double difference, double reference) {
  if (difference == 0) return 0;
  return reference > 0 ? difference / reference : std::numeric_limits<double>::infinity();
}

template <class Reference>
void add_all(Accuracy& accuracy, std::span<const float> computed,
             std::span<const Reference> reference) {
  assert(computed.size() == reference.size());
  for (std::size_t i = 0; i < computed.size(); ++i) {
    accuracy.add(computed[i], static_cast<double>(reference[i]));
  }
}

}  // namespace

void Accuracy::add(float computed, double reference) {
  const double value = computed;
  double difference = value == reference ? 0 : std::abs(value - reference);
  // A value that isn't finite is an error even where the reference has none either: weights that
  // are damaged must not pass.
  if (!std::isfinite(difference)) difference = std::numeric_limits<double>::infinity();
  largest_difference_ = std::max(largest_difference_, difference);
  squared_difference_ += difference * difference;
  if (!std::isfinite(reference)) return;
  largest_reference_ = std::max(largest_reference_, std::abs(reference));
  squared_reference_ += reference * reference;
}

void Accuracy::add(std::span<const float> computed, std::span<const double> reference) {
  add_all(*this, computed, reference);
}

void Accuracy::add(std::span<const float> computed, std::span<const float> reference) {
  add_all(*this, computed, reference);
}

double Accuracy::max_rel_error() const { return ratio(largest_difference_, largest_reference_); }

double Accuracy::rel_frobenius() const {
  return ratio(std::sqrt(squared_difference_), std::sqrt(squared_reference_));
}

}  // namespace waybill::cli
