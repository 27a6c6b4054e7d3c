// How far values are from those that they should be.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace waybill::testing {

// A value that isn't finite where it should be, or that is missing, is infinitely far.
class Difference {
 public:
  Difference() = default;
  template <class Wanted>
  Difference(std::span<const float> found, std::span<const Wanted> wanted) {
    if (found.size() != wanted.size()) error_ = infinity;
    const std::size_t size = std::min(found.size(), wanted.size());
    for (std::size_t i = 0; i < size; ++i) {
      add(static_cast<double>(found[i]), static_cast<double>(wanted[i]));
    }
  }

  void add(double found, double wanted) {
    double error = std::abs(found - wanted);
    if (!std::isfinite(error)) error = infinity;
    error_ = std::max(error_, error);
    magnitude_ = std::max(magnitude_, std::abs(wanted));
    error_squares_ += error * error;
    squares_ += wanted * wanted;
  }

  // The largest, over the largest magnitude; absolute where all should be 0.
  double largest() const { return magnitude_ > 0 ? error_ / magnitude_ : error_; }
  // In the Frobenius norm, likewise.
  double frobenius() const {
    if (!std::isfinite(error_)) return infinity;
    return std::sqrt(squares_ > 0 ? error_squares_ / squares_ : error_squares_);
  }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  double error_ = 0, magnitude_ = 0, error_squares_ = 0, squares_ = 0;
};

inline double largest_difference(std::span<const float> found, std::span<const float> wanted) {
  return Difference(found, wanted).largest();
}
inline double frobenius_difference(std::span<const float> found, std::span<const float> wanted) {
  return Difference(found, wanted).frobenius();
}

}  // namespace waybill::testing
