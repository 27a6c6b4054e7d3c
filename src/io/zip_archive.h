// The entries of a zip archive in memory, and archives of stored entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace waybill {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;
  std::uint32_t size = 0;   // unpacked
  std::string_view packed;  // into the archive
};

// Whether bytes begin as a zip archive does.
bool is_zip(std::string_view bytes);

// FileTruncated, DocumentMalformed (encrypted, zip64 or otherwise packed entries among them) and
// DuplicateKey, with the file; nothing is unpacked.
std::vector<ZipEntry> zip_entries(std::string_view archive, std::string_view file);

// An entry's bytes, checked against its size and checksum.
std::string zip_contents(const ZipEntry& entry, std::string_view file);

// An archive of entries that are stored as they are, without times.
class ZipWriter {
 public:
  void add(std::string_view name, std::string_view bytes);
  std::string finish() &&;

 private:
  std::string archive_, directory_;
  std::uint16_t entries_ = 0;
};

}  // namespace waybill
