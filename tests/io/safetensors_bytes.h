// Safetensors files as byte strings, legal or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace waybill::testing {

// The 8 bytes that declare the header's length.
inline std::string length_field(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xFFU);
  return bytes;
}

// A file with that header and `data` zero bytes.
inline std::string safetensors_bytes(std::string_view header, std::size_t data) {
  return length_field(header.size()) + std::string(header) + std::string(data, '\0');
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace waybill::testing
