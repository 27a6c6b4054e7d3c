// Where the checks of a file report what they find: loading stops at the first fault, verifying
// wants them all.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "waybill/error.h"

namespace waybill {

class Faults {
 public:
  // Bounds the work on a file that is wrong everywhere.
  static constexpr std::size_t most = 100;

  // Throws each fault when it is reported.
  Faults() = default;
  // Keeps the faults that `check(faults)` reports or throws, until there are `most`.
  template <class Check>
  static Faults collect(Check&& check) {
    Faults faults;
    faults.keeps_ = true;
    try {
      faults.attempt([&] { std::forward<Check>(check)(faults); });
    } catch (const Full&) {
    }
    return faults;
  }

  void report(Error fault) {
    if (!keeps_) throw std::move(fault);
    kept_.push_back(std::move(fault));
    if (kept_.size() == most) throw Full();
  }

  // Runs `part`; an Error that leaves it is reported, and false returned.
  template <class Part>
  bool attempt(Part&& part) {
    try {
      std::forward<Part>(part)();
      return true;
    } catch (Error& fault) {
      report(std::move(fault));
      return false;
    }
  }

  std::size_t size() const { return kept_.size(); }
  bool empty() const { return kept_.empty(); }
  const std::vector<Error>& all() const { return kept_; }

 private:
  struct Full {};

  bool keeps_ = false;
  std::vector<Error> kept_;
};

}  // namespace waybill
