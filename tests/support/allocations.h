// Watches the heap of a test program: linking allocations.cpp replaces its global operator new.
#pragma once

#include <cstdint>
#include <limits>

namespace waybill::testing {

// What the calling thread has asked operator new for so far.
struct Allocations {
  std::int64_t calls = 0, bytes = 0;
};
Allocations allocations();

// While it lives, the calling thread's operator new throws std::bad_alloc from call number `passed`
// (counted from 0) on, `failing` times.
class ScarceMemory {
 public:
  explicit ScarceMemory(std::int64_t passed,
                        std::int64_t failing = std::numeric_limits<std::int64_t>::max());
  ~ScarceMemory();
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;

  // Whether any call has failed.
  bool used() const;
};

}  // namespace waybill::testing
