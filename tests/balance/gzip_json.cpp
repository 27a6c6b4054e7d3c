#include "balance/gzip_json.h"

#include <zlib.h>

#include <array>

namespace waybill::testing {

JsonDocument read_recorded(const std::string& name) {
  const std::string path = std::string(WAYBILL_TEST_DATA) + "/" + name;
  std::string text;
  gzFile file = gzopen(path.c_str(), "rb");  // passes plain files through
  if (file == nullptr) throw Error(Code::FileUnreadable).at("file", path);
  std::array<char, 1 << 16> chunk{};
  for (int n = 0; (n = gzread(file, chunk.data(), chunk.size())) > 0;) {
    text.append(chunk.data(), static_cast<std::size_t>(n));
  }
  gzclose(file);
  return JsonDocument::parse(text, path);
}

}  // namespace waybill::testing
