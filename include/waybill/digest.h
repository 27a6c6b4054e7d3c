// SHA-256 over bytes: semantic route digests, parameter digests, output hashes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace waybill {

class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  // Finishes; the object can't be updated afterwards.
  std::array<std::uint8_t, 32> finish();
  std::string finish_hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Lower-case hexadecimal SHA-256.
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

}  // namespace waybill
