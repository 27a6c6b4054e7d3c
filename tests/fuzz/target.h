// A fuzz target: one source that defines read(), linked with the entry that the fuzzer calls.
#pragma once

#include <cstdlib>
#include <string_view>

namespace waybill::fuzz {

// Reads `bytes` as the target's kind of file. May throw waybill::Error, nothing else.
void read(std::string_view bytes);

// What must hold of a file that was accepted.
inline void require(bool holds) {
  if (!holds) std::abort();
}

// Takes the first byte away: which of `kinds` readers the rest is for. No bytes: the first reader.
inline unsigned take_kind(std::string_view& bytes, unsigned kinds) {
  if (bytes.empty()) return 0;
  const unsigned kind = static_cast<unsigned char>(bytes.front()) % kinds;
  bytes.remove_prefix(1);
  return kind;
}

}  // namespace waybill::fuzz
