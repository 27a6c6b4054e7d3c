// A file's bytes as read-only memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace waybill {

// Owns the mapping; spans into it stay valid, also across moves, while it lives. The file must not
// shrink meanwhile.
class MappedFile {
 public:
  // FileUnreadable (file named) when it can't be opened or isn't a regular file. An empty file maps
  // to an empty span.
  static MappedFile open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  // Gives back the memory of the pages that hold `part`, a piece of bytes(). They are read from the
  // file again when they are touched again.
  void drop(std::span<const std::byte> part) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace waybill
