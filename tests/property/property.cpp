#include "property/property.h"

#include <rapidcheck.h>

namespace waybill::property {

bool check(const std::string& name, void (*body)()) { return rc::check(name, body); }

void fail(const char* file, int line, const std::string& what) {
  RC_FAIL(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

void note(const std::string& text) { RC_LOG() << text << '\n'; }

// A generator's range grows with the size of a case, from one value to all at the nominal size, so
// that the last entries of a list would hardly ever be drawn.
std::int64_t draw_integer(std::int64_t low, std::int64_t high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high));
}

std::uint64_t draw_bits() {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>());
}

bool draw_bool() { return *rc::gen::arbitrary<bool>(); }

}  // namespace waybill::property
