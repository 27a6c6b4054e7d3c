#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace waybill::cli {

Progress::Progress(std::string_view what, std::int64_t total)
    : what_(what),
      total_(total),
      start_(std::chrono::steady_clock::now()),
      terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void Progress::begin(std::int64_t unit) {
  if (!terminal_ || std::chrono::steady_clock::now() - start_ < std::chrono::seconds(1)) return;
  fmt::print(stderr, "\r\x1b[K{} {} of {}", what_, unit, total_);
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace waybill::cli
