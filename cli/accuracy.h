// How far a computed tensor is from its reference.
#pragma once

#include <span>

namespace waybill::cli {

class Accuracy {
 public:
  void add(float computed, double reference);
  void add(std::span<const float> computed, std::span<const double> reference);
  void add(std::span<const float> computed, std::span<const float> reference);

  // Largest difference over the reference's largest magnitude. 0 when both are all zero; infinite
  // when a value is not a number on either side.
  double max_rel_error() const;
  // |computed - reference| / |reference| in the Frobenius norm.
  double rel_frobenius() const;

 private:
  double largest_difference_ = 0, largest_reference_ = 0;
  double squared_difference_ = 0, squared_reference_ = 0;
};

}  // namespace waybill::cli
