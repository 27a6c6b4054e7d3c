// A line on stderr that tells how far a longer job is. Silent when stderr is no terminal and for
// jobs of less than a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace waybill::cli {

class Progress {
 public:
  // `what` is "layer": shown as "layer 3 of 16".
  Progress(std::string_view what, std::int64_t total);
  ~Progress();  // wipes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Unit number `unit`, 1-based, begins.
  void begin(std::int64_t unit);

 private:
  std::string what_;
  std::int64_t total_;
  std::chrono::steady_clock::time_point start_;
  bool terminal_;
  bool shown_ = false;
};

}  // namespace waybill::cli
