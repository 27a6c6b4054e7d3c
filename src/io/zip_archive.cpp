#include "io/zip_archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <set>

#include "io/inflate.h"
#include "waybill/error.h"

namespace waybill {
namespace {

// Sizes of the records without their names and extra fields.
constexpr std::size_t local_bytes = 30, central_bytes = 46, end_bytes = 22;
constexpr std::string_view local_mark = "PK\x03\x04", central_mark = "PK\x01\x02",
                           end_mark = "PK\x05\x06";
constexpr std::size_t longest_entry = std::size_t{1} << 31U;

Error zip_fault(Code code, std::string_view file) { return Error(code).at("file", file); }

// Little-endian fields of a part of the archive; reading past the end is FileTruncated.
class ZipFields {
 public:
  ZipFields(std::string_view bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  std::string_view piece(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) {
      throw zip_fault(Code::FileTruncated, file_)
          .expected(fmt::format("{} bytes at {}", size, at))
          .found(fmt::format("{} bytes", bytes_.size()));
    }
    return bytes_.substr(at, size);
  }
  std::uint32_t number(std::size_t at, std::size_t size) const {
    std::uint32_t value = 0;
    const std::string_view digits = piece(at, size);
    for (std::size_t i = size; i-- > 0;) {
      value = value << 8U | static_cast<unsigned char>(digits[i]);
    }
    return value;
  }
  std::uint32_t u16(std::size_t at) const { return number(at, 2); }
  std::uint32_t u32(std::size_t at) const { return number(at, 4); }

 private:
  std::string_view bytes_, file_;
};

std::size_t find_end_record(std::string_view archive, std::string_view file) {
  // Only a comment of up to 64 KiB may follow it.
  const std::size_t reach = end_bytes + std::numeric_limits<std::uint16_t>::max();
  const std::size_t from = archive.size() > reach ? archive.size() - reach : 0;
  const std::size_t at = archive.rfind(end_mark);
  if (at == std::string_view::npos || at < from || archive.size() - at < end_bytes) {
    throw zip_fault(Code::FileTruncated, file).expected("the end record of a zip archive");
  }
  return at;
}

ZipEntry read_entry(const ZipFields& fields, std::size_t at, std::string_view file) {
  const std::uint32_t method = fields.u16(at + 10), flags = fields.u16(at + 8);
  const std::uint32_t packed = fields.u32(at + 20), local = fields.u32(at + 42);
  ZipEntry entry;
  entry.name = fields.piece(at + central_bytes, fields.u16(at + 28));
  entry.crc = fields.u32(at + 16);
  entry.size = fields.u32(at + 24);
  entry.deflated = method == 8;
  constexpr std::uint32_t zip64 = std::numeric_limits<std::uint32_t>::max();
  if ((method != 0 && method != 8) || (flags & 1U) != 0 || packed == zip64 || local == zip64 ||
      entry.size > longest_entry) {
    throw zip_fault(Code::DocumentMalformed, file)
        .at("entry", entry.name)
        .expected("a stored or deflated entry below 2 GiB")
        .found(fmt::format("method {}, flags {}, {} bytes", method, flags, entry.size));
  }
  if (fields.piece(local, 4) != local_mark) {
    throw zip_fault(Code::DocumentMalformed, file)
        .at("entry", entry.name)
        .expected("its local header")
        .found("other bytes");
  }
  const std::size_t data =
      std::size_t{local} + local_bytes + fields.u16(local + 26) + fields.u16(local + 28);
  entry.packed = fields.piece(data, packed);
  return entry;
}

void put(std::string& to, std::uint32_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i, value >>= 8U) to += static_cast<char>(value & 0xFFU);
}

// The fields that local and central records share: version to the length of the extra field.
void put_common(std::string& to, std::string_view name, std::string_view bytes) {
  constexpr std::uint32_t version = 20, first_of_january_1980 = 0x21;
  const auto size = static_cast<std::uint32_t>(bytes.size());
  put(to, version, 2);
  put(to, 0, 2 + 2 + 2);  // flags, method, time
  put(to, first_of_january_1980, 2);
  put(to,
      static_cast<std::uint32_t>(
          crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size())),
      4);
  put(to, size, 4);
  put(to, size, 4);
  put(to, static_cast<std::uint32_t>(name.size()), 2);
  put(to, 0, 2);
}

}  // namespace

bool is_zip(std::string_view bytes) {
  return bytes.starts_with(local_mark) || bytes.starts_with(end_mark);
}

std::vector<ZipEntry> zip_entries(std::string_view archive, std::string_view file) {
  const ZipFields fields(archive, file);
  const std::size_t end = find_end_record(archive, file);
  const std::uint32_t count = fields.u16(end + 10);
  std::size_t at = fields.u32(end + 16);
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (fields.piece(at, 4) != central_mark) {
      throw zip_fault(Code::DocumentMalformed, file)
          .expected(fmt::format("entry {} of {} at byte {}", i, count, at))
          .found("other bytes");
    }
    entries.push_back(read_entry(fields, at, file));
    if (!names.insert(entries.back().name).second) {
      throw zip_fault(Code::DuplicateKey, file)
          .at("entry", entries.back().name)
          .found("the name twice");
    }
    at += central_bytes + fields.u16(at + 28) + fields.u16(at + 30) + fields.u16(at + 32);
  }
  return entries;
}

std::string zip_contents(const ZipEntry& entry, std::string_view file) {
  std::string bytes = entry.deflated ? unpack(entry.packed, Packing::deflate, entry.size, file)
                                     : std::string(entry.packed);
  const auto crc = static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  if (bytes.size() != entry.size || crc != entry.crc) {
    throw zip_fault(Code::DocumentMalformed, file)
        .at("entry", entry.name)
        .expected(fmt::format("{} bytes with checksum {:08x}", entry.size, entry.crc))
        .found(fmt::format("{} bytes with checksum {:08x}", bytes.size(), crc));
  }
  return bytes;
}

void ZipWriter::add(std::string_view name, std::string_view bytes) {
  const auto local = static_cast<std::uint32_t>(archive_.size());
  archive_ += local_mark;
  put_common(archive_, name, bytes);
  archive_ += name;
  archive_ += bytes;

  directory_ += central_mark;
  put(directory_, 20, 2);
  put_common(directory_, name, bytes);
  put(directory_, 0, 2 + 2 + 2 + 4);  // comment, disk, attributes
  put(directory_, local, 4);
  directory_ += name;
  ++entries_;
}

std::string ZipWriter::finish() && {
  const auto start = static_cast<std::uint32_t>(archive_.size());
  archive_ += directory_;
  archive_ += end_mark;
  put(archive_, 0, 2 + 2);  // disks
  put(archive_, entries_, 2);
  put(archive_, entries_, 2);
  put(archive_, static_cast<std::uint32_t>(directory_.size()), 4);
  put(archive_, start, 4);
  put(archive_, 0, 2);
  return std::move(archive_);
}

}  // namespace waybill
