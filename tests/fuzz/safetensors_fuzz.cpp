// A safetensors file: whatever the header says, every tensor lies in the file, byte for byte once.
#include <cstddef>
#include <functional>
#include <span>

#include "fuzz/target.h"
#include "io/safetensors.h"

namespace waybill::fuzz {

void read(std::string_view bytes) {
  const SafetensorsContents contents =
      parse_safetensors(std::as_bytes(std::span(bytes)), "f.safetensors");
  const void* const end = bytes.data() + bytes.size();
  std::size_t total = 0;
  for (const SafetensorsTensor& tensor : contents.tensors) {
    const std::byte* const first = tensor.bytes.data();
    const auto before = std::less_equal<const void*>();
    require(before(bytes.data(), first) && before(first + tensor.bytes.size(), end));
    total += tensor.bytes.size();
  }
  require(total < bytes.size());
}

}  // namespace waybill::fuzz
