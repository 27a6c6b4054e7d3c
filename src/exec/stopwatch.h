// Adds the time of a scope to a duration of the step report.
#pragma once

#include <chrono>

#include "waybill/ledger.h"

namespace waybill {

class Stopwatch {
 public:
  explicit Stopwatch(Nanoseconds& total) : total_(total) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    total_ += Nanoseconds{std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count()};
  }

 private:
  Nanoseconds& total_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace waybill
