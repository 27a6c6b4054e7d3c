#include "support/allocations.h"

#include <cstdlib>
#include <new>

namespace waybill::testing {
namespace {

struct Heap {
  Allocations so_far;
  std::int64_t passing = std::numeric_limits<std::int64_t>::max();
  std::int64_t failing = 0;
  bool failed = false;
};
thread_local Heap heap;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (heap.passing > 0) {
    --heap.passing;
  } else if (heap.failing > 0) {
    --heap.failing;
    heap.failed = true;
    throw std::bad_alloc();
  }
  ++heap.so_far.calls;
  heap.so_far.bytes += static_cast<std::int64_t>(bytes);
  // aligned_alloc wants whole multiples.
  void* block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

Allocations allocations() { return heap.so_far; }

ScarceMemory::ScarceMemory(std::int64_t passed, std::int64_t failing) {
  heap.passing = passed;
  heap.failing = failing;
  heap.failed = false;
}

ScarceMemory::~ScarceMemory() {
  heap.passing = std::numeric_limits<std::int64_t>::max();
  heap.failing = 0;
}

bool ScarceMemory::used() const { return heap.failed; }

}  // namespace waybill::testing

// The other forms of new call these, except that a sanitizer has nothrow forms of its own.
void* operator new(std::size_t bytes) {
  return waybill::testing::allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return waybill::testing::allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
