#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz/target.h"
#include "waybill/error.h"

// An Error is how a reader refuses a file. Everything else ends the process: a crash, a sanitizer's
// report, another exception, a message that grows with the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t longest_message = 4096;
  try {
    waybill::fuzz::read({reinterpret_cast<const char*>(data), size});
  } catch (const waybill::Error& refusal) {
    if (std::string_view(refusal.what()).size() > longest_message) std::abort();
  }
  return 0;
}
